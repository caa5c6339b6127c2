"""The ``echo`` model: says back what it hears. No weights, next to no CPU: for tests, load and line checks."""

from .model import EchoModel

PLUGIN = EchoModel

__all__ = ["PLUGIN", "EchoModel"]
