"""nvidia/NVIDIA-NemotronLabs-VoiceChat-11B: listens and writes in frames of 80 ms, and calls tools meanwhile.

``model`` owns two processes, the engine and the one that speaks; ``session`` is one caller. ``tools`` is the form of
calls and outputs, ``calls`` which of them are open, ``mouth`` what is still to be said, ``speaking`` has it spoken,
``record`` is what of all that is kept in the log.
"""

from .model import PLUGIN, NemotronModel

__all__ = ["PLUGIN", "NemotronModel"]
