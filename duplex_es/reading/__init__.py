"""A session's log, read: one interface over a live store and exported files, and a call taken out of its records."""
