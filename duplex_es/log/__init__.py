"""Where a session is kept: the append-only log, its promises (``api``), and its implementations."""
