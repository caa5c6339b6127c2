"""Sessions kept for longer than the store keeps them, sealed, and erased for good where that is asked for."""
