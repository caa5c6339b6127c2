"""Options of the model ``chat``."""

from __future__ import annotations

from dataclasses import dataclass

from ..floor import DEFAULT_LEAD_MS

AUDIO_PARTS = ("input_audio", "audio_url")
AUDIO_IN = ("native", "asr")
AUDIO_OUT = ("native", "tts")


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Which server is asked, and how.

    ``chat_url`` is the API's root, with or without ``/chat/completions``; ``chat_model`` the model it is asked for,
    ``chat_key`` its key, else the variable ``DUPLEX_ES_CHAT_KEY``. ``name`` is the model that sessions ask for.

    ``audio_in`` is who understands speech: the server (``native``), or a recogniser here (``asr``), so that the server
    gets text. ``audio_out`` is who speaks: the server, or a voice here (``tts``) that says what the server writes.

    ``audio`` off: the server writes only, and nobody speaks. ``audio_part`` is how it takes speech: ``input_audio``
    (base64 WAV) or ``audio_url`` (a data URL). ``audio_metadata`` off: audio without ``audio_metadata`` is taken to be
    mono at ``output_rate_hz``. ``lead_ms`` is how far audio runs ahead of real time (``none``: as fast as it comes).

    The first piece of an answer must come within ``first_byte_s``, each next one within ``idle_s``. A request that
    fails before its first piece is made again up to ``retries`` times.
    """

    chat_url: str | None = None
    chat_model: str = "default"
    chat_key: str | None = None
    name: str = "chat"
    audio: bool = True
    audio_in: str = "native"
    audio_out: str = "native"
    audio_part: str = "input_audio"
    audio_metadata: bool = True
    output_rate_hz: int = 24_000
    lead_ms: int | None = DEFAULT_LEAD_MS
    first_byte_s: float = 10.0
    idle_s: float = 30.0
    retries: int = 2

    def complaint(self) -> str | None:
        """Why these options cannot work, ``None`` when they can."""
        if self.audio_part not in AUDIO_PARTS:
            return f"model chat: audio_part is {self.audio_part!r}; it is one of {', '.join(AUDIO_PARTS)}"
        for name, known in (("audio_in", AUDIO_IN), ("audio_out", AUDIO_OUT)):
            if getattr(self, name) not in known:
                return f"model chat: {name} is {getattr(self, name)!r}; it is one of {', '.join(known)}"
        if self.first_byte_s <= 0 or self.idle_s <= 0 or self.retries < 0:
            return "model chat: first_byte_s and idle_s are above 0, retries is not below"
        if not 8_000 <= self.output_rate_hz <= 192_000:
            return f"model chat: output_rate_hz is {self.output_rate_hz}; it is from 8000 to 192000"
        return None
