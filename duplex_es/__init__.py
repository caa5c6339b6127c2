"""duplex_es: sessions for full-duplex voice models, kept in an event log. Importing this imports nothing else."""

__version__ = "0.1.0"
