"""Models that step: a frame of sound in, a frame of sound out, for as long as the call lasts.

``model`` owns the engine's process, ``session`` is one caller of it, ``voice`` turns frames into answers.
"""
