"""``duplex-es archive …``."""
