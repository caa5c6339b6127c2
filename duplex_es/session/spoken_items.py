"""Messages of a user that hold sound: spoken into the session and committed in one go, under the client's own id.

Source: docs/reference/realtime-api.md, "Conversation items".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..protocol import AppendAudio, AudioFormat, ContentPart, CreateItem, ProtocolError
from .committing import forgotten
from .events import AudioAppended, Fact, InputCommitted
from .refusals import refuse
from .sound import appended_sound, check_detectable
from .state import Session

PARAM = "item.content.audio"


def written(part: ContentPart) -> str:
    """The words of a content part, ``""`` if it has none."""
    for value in (part.text, part.transcript):
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _words(parts: Iterable[ContentPart]) -> str:
    return " ".join(words for words in map(written, parts) if words)


def create_spoken(
    session: Session, command: CreateItem, parts: Sequence[ContentPart], item_id: str, previous_item_id: str | None
) -> tuple[Fact, ...]:
    """Take the sound of every part that is not declared silence, in order, and commit it as ``item_id``.

    Never starts an answer. An utterance that is open is over with it: the two would be one turn to the model.
    """
    try:
        appended = [_heard(session, number, part) for number, part in enumerate(parts) if isinstance(part.audio, bytes)]
    except ProtocolError as error:
        known = error.code if error.code in ("bad_audio", "unsupported_audio_format") else "bad_audio"
        return refuse(command, known, error.message, PARAM)
    sound = [fact for fact in appended if fact.is_speech]
    text = _words(part for part in parts if not isinstance(part.audio, bytes))
    if not sound and not text:
        return refuse(command, "bad_event", "item.content holds neither speech nor text.", "item.content")
    transcript = _words(part for part in parts if isinstance(part.audio, bytes))
    transcribes = session.info is not None and session.info.transcribes
    committed = InputCommitted(
        item_id=item_id,
        turn_id=session.turn_id,
        transcript=transcript,
        transcribing=bool(sound) and transcribes and not transcript,
        text=text,
        has_audio=bool(sound),
        audio_ms=sum(fact.samples * 1000 // fact.rate_hz for fact in sound),
        created=True,
        previous_item_id=previous_item_id,
    )
    return *forgotten(session), *sound, committed


def _heard(session: Session, number: int, part: ContentPart) -> AudioAppended:
    """The sound of one part. Raises: ProtocolError for what cannot be read."""
    said = {"format": part.format, "sample_rate_hz": part.sample_rate_hz}
    command = AppendAudio(
        audio=part.audio if isinstance(part.audio, bytes) else b"",
        **{name: value for name, value in said.items() if isinstance(value, str | int | dict)},  # type: ignore[arg-type]
    )
    sound, data = appended_sound(session.settings, command)
    if session.is_chat_lane and session.settings.turn_detection is not None:
        check_detectable(AudioFormat(sound.encoding, sound.sample_rate_hz), session.input)
    return AudioAppended(
        samples=sound.samples(len(data)),
        rate_hz=sound.sample_rate_hz,
        is_speech=part.is_speech is not False,
        hinted=True,
        forced=True,
        part=number,
    )
