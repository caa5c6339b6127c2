"""Voice activity: is this sound a person speaking, and when does a turn begin and end."""
