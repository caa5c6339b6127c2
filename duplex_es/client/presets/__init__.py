"""Sessions as published models want them, one module each: ``create_duplex_session_config``."""
