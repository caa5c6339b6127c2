"""The timeline of a call: what an eye needs to find its way through a log."""
