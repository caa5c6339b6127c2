"""Replies on request: ``response.create``, with its overrides for one answer.

Source: docs/reference/realtime-api.md, "response.create".
"""

from __future__ import annotations

from msgspec import UNSET

from ..protocol import CreateResponse, ProtocolError, given, read_response_options
from .events import Fact, TurnPromoted
from .refusals import refuse
from .responses import start_response
from .state import Session

RESTRICTED = ("instructions", "voice", "temperature", "max_output_tokens", "tools", "tool_choice")
"""Overrides that a model must be able to take for one answer."""
MODALITIES = ("text", "audio")
"""What a response can consist of."""


def decide_create(session: Session, command: CreateResponse, now_ms: int) -> tuple[Fact, ...]:
    """Announce an answer. One that the model owes for a committed turn anyway is announced for that turn.

    Refused while an answer is being given, while one is not heard to its end under ``ack_only``, and when there is
    nothing to answer and the model cannot speak from text.
    """
    try:
        options = read_response_options(command.response)
    except ProtocolError as error:
        return refuse(command, error.code, error.message, error.param)
    info = session.info
    if session.in_progress:
        return refuse(
            command,
            "response_already_active",
            "A response is active; wait for response.done or cancel it first.",
        )
    unknown = [name for name in given(options.modalities, []) if name not in MODALITIES]
    if unknown and (session.is_chat_lane or len(unknown) == len(given(options.modalities, []))):
        message = f"A response cannot be {unknown[0]!r:.60}; ask for text, audio or both."
        return refuse(command, "unsupported_response_modality", message, "response.modalities")
    asked = [name for name in RESTRICTED if getattr(options, name) not in (UNSET, None)]
    takes_options = info is not None and (info.takes_response_options or session.is_chat_lane)
    if asked and not takes_options:
        names = ", ".join(asked)
        return refuse(
            command,
            "unsupported_native_response_options",
            f"This model takes no per-response {names}; set them with session.update.",
            f"response.{asked[0]}",
        )
    held = session.waiting
    owed = session.owed is not None or session.begun is not None or held is not None
    waiting = _has_unanswered_turn(session)
    speaks_from_text = info is not None and (info.takes_text_turns or session.is_chat_lane)
    if not owed and not waiting and not speaks_from_text:
        return refuse(
            command, "response_create_without_input", "There is no committed input to answer; commit some first."
        )
    started = start_response(
        session,
        modalities=tuple(given(options.modalities, [])) or session.settings.modalities,
        metadata=given(options.metadata, None),
        conversation=given(options.conversation, None),
        generate=not owed or _has_new_words(session),
        instructions=given(options.instructions, None),
        temperature=given(options.temperature, None),
        max_output_tokens=given(options.max_output_tokens, None),
        voice=given(options.voice, None),
        tools=None if options.tools in (UNSET, None) else tuple(given(options.tools, [])),
        tool_choice=given(options.tool_choice, None),
        prompt=given(options.prompt, None),
        output_format=given(options.output_encoding, None),
        output_rate_hz=given(options.output_rate_hz, None),
    )
    if held is None:
        return (started,)
    # What waited behind an answer that failed is asked for now.
    return TurnPromoted(item_id=held.item_id, respond=True), started


def _has_new_words(session: Session) -> bool:
    """Whether the newest thing said is one that the model has not been told of: it was written."""
    newest = session.items[-1] if session.items else None
    return newest is not None and newest.role == "user" and newest.part == "text"


def _has_unanswered_turn(session: Session) -> bool:
    """Whether something was said after the last answer began."""
    newest = session.items[-1] if session.items else None
    return newest is not None and newest.role != "assistant"
