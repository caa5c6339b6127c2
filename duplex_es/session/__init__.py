"""What a session is: pure decisions over recorded facts. No I/O, no clock, no randomness."""
