"""Built-in models, one package each; they load through the same entry points as anybody else's and never meet.

``pcm`` (samples and durations) and ``floor`` (turn numbers, epochs, pace) are what a speaking model needs besides.
"""
