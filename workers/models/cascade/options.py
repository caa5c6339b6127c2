"""What an operator may set on the cascade."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..floor import DEFAULT_LEAD_MS


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """Options of the model ``cascade``.

    ``lead_ms`` is how far speech runs ahead of real time (``none``: as fast as it is made); an interruption cannot take
    back more than that. ``silence_ms`` ends a turn where the session sets none; ``barge_in_ms`` of speech over the
    assistant's cut it. ``threads`` is how many callers are recognised, and how many spoken to, at the same moment.

    ``chat_url`` is an OpenAI-compatible server that answers what no rule does (with ``rules`` off: everything), as
    ``chat_model``; its key is ``chat_key`` or the variable ``DUPLEX_ES_CHAT_KEY``. Without one, ``language_model`` says
    whether SmolLM2 is used where it is installed.
    """

    lead_ms: int | None = DEFAULT_LEAD_MS
    silence_ms: int = 480
    barge_in_ms: int = 600
    threads: int = max(1, min(2, os.cpu_count() or 1))
    rules: bool = True
    language_model: bool = True
    chat_url: str | None = None
    chat_model: str = "default"
    chat_key: str | None = None
