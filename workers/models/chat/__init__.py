"""The ``chat`` model: any OpenAI-compatible chat server, asked once per turn; audio both ways where it has it."""

from .model import ChatModel

PLUGIN = ChatModel

__all__ = ["PLUGIN", "ChatModel"]
