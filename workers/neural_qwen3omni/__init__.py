"""Qwen3-Omni on the classes of transformers, as one engine that is asked turn by turn.

The thinker writes, the talker turns what it writes into codes while it is being written, and the codes become sound:
each a token or a frame a step, all turns beside each other. Nothing here is imported by a worker; it needs torch and
transformers.
"""
