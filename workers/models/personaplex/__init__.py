"""nvidia/personaplex-7b-v1: a voice that listens while it speaks, stepped for all callers at once on one device."""

from .model import PLUGIN

__all__ = ["PLUGIN"]
