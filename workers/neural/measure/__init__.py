"""``python -m workers.neural.measure``: what a device can do with the frame model, and whether it does it right."""
