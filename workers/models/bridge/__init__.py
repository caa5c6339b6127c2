"""The ``vllm-omni`` model: a realtime server somewhere else, one session of it for each session here."""

from .model import BridgeModel

PLUGIN = BridgeModel

__all__ = ["PLUGIN", "BridgeModel"]
