"""MiniCPM-o 4.5: hears, sees and speaks in units of a second, in the authors' own code and interpreter."""

from .model import MiniCPMModel

PLUGIN = MiniCPMModel

__all__ = ["PLUGIN", "MiniCPMModel"]
