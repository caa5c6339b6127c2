"""Facts to frames: what the client hears of each recorded fact. Pure; the same fact always gives the same frames."""
