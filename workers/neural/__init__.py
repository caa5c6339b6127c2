"""Models that run on torch, in the engine's own interpreter.

``moshi`` is a frame-synchronous transformer pair whose slots live independently of each other, ``mimi`` the codec in
the same manner, ``personaplex`` the published model made of both, ``measure`` a program that times it all on a device.
Nothing here is imported by a worker: it needs torch, and nothing else of ours but ``workers.engine``.
"""
