"""Nemotron VoiceChat on the classes of transformers, up to what it says and calls: it hears, writes, and uses tools.

Every 80 ms of sound become one frame of the causal FastConformer, and that, fused with the two tokens it wrote last,
one step of the hybrid Mamba backbone: a token of what is said and a token of the function channel. All sessions are
one batch. The talker and its codec are not here: whoever uses this engine gives it a voice. Nothing here is imported
by a worker; it needs torch and transformers.
"""
