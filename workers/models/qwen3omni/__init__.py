"""Qwen3-Omni: asked turn by turn, answered word by word and aloud, many sessions on one loaded model."""

from .model import QwenModel

PLUGIN = QwenModel

__all__ = ["PLUGIN", "QwenModel"]
