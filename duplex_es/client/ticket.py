"""A session to be taken up elsewhere, as one line of text."""

from __future__ import annotations

from typing import Any

import msgspec

VERSION = 1


class ResumeTicket(msgspec.Struct, frozen=True, kw_only=True, rename={"version": "v"}):
    """All that another process needs to go on with a session, JSON when written down.

    It holds the resume token: whoever has the text has the session. It is good until the next resume, which rotates
    the token. ``after_seq`` is the last event that needs no replay; ``appended_bytes`` of caller audio were appended.
    """

    session_id: str
    resume_token: str
    after_seq: int
    model: str
    incarnation: int | None = None
    input_audio: tuple[str, int] = ("pcm16", 16_000)
    output_audio: tuple[str, int] = ("pcm16", 24_000)
    appended_bytes: int = 0
    session_info: dict[str, Any] = {}
    version: int = VERSION

    def to_text(self) -> str:
        """The ticket as text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> ResumeTicket:
        """The ticket in ``text``. Raises: ValueError when there is none, or one of another version."""
        try:
            ticket = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"this is no resume ticket: {error}") from error
        if ticket.version != VERSION:
            raise ValueError(f"a resume ticket of version {ticket.version}; this client reads version {VERSION}")
        return ticket
