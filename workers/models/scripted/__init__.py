"""The ``scripted`` model: plays a script of decisions and audio; the test instrument. Format: ``scripted.script``."""

from .model import ScriptedModel

PLUGIN = ScriptedModel

__all__ = ["PLUGIN", "ScriptedModel"]
