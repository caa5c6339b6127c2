"""Where a bridged session stands: all that a successor needs to take up the server's session exactly there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

KEPT = 8
"""So many of the newest names are remembered."""
VERSION = 1


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One response of the server. ``turn`` is its number here once something of it was heard.

    ``response_id`` is the response here that it was asked for. Nothing is heard of one that is ``stale``: an
    interruption here came before it. ``listened``: the server has said that it keeps listening instead.
    """

    epoch: int
    turn: int | None = None
    response_id: str | None = None
    stale: bool = False
    listened: bool = False
    untold: str = ""


class Utterance(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn of the caller, by the server's item. ``item_id`` is the item here, ``None`` if the server ended it."""

    item_id: str | None = None
    committed: bool = False
    start_ms: int | None = None
    end_ms: int | None = None


class Sent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the server has been told: caller audio up to ``audio_ms`` of the input clock, and the newest names of the

    turns that were ended and the answers that were asked for.
    """

    audio_ms: int = 0
    epoch: int = 0
    turns: list[str] = []
    asked: list[str] = []

    def event_id(self, kind: str) -> str:
        """A name for the next client event. It says what was told with it and before, so that one name says all."""
        names = (self.turns[-1] if self.turns else "", self.asked[-1] if self.asked else "")
        return msgspec.json.encode([kind, self.audio_ms, self.epoch, *names]).decode()

    def arrived(self, event_id: str) -> None:
        """The event of this name is the last that arrived: what was told after it was not."""
        said = read_event_id(event_id)
        if said is None:
            return
        _, self.audio_ms, self.epoch, turn, asked = said
        self.turns, self.asked = _up_to(self.turns, turn), _up_to(self.asked, asked)

    def note_turn(self, item_id: str) -> None:
        """A turn was ended."""
        self.turns = [*self.turns, item_id][-KEPT:]

    def note_asked(self, response_id: str) -> None:
        """An answer was asked for."""
        self.asked = [*self.asked, response_id][-KEPT:]


class Standing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``seq`` is the server's last frame of which all is signalled; ``token`` is sealed.

    ``turns`` counts the answers begun, ``cutting`` the interruptions that the server has not answered yet. ``commits``
    are turns ended here that it has not acknowledged, ``asked`` responses that it has not announced. ``told_item`` is
    the last history item that it was told. ``unwanted``: the answer that it may give to the last turn is not wanted.
    ``offset_ms`` is where its input clock began on ours.
    """

    v: int = VERSION
    url: str = ""
    session_id: str = ""
    incarnation: int = 0
    token: bytes = b""
    seq: int = 0
    epoch: int = 0
    turns: int = 0
    cutting: int = 0
    offset_ms: int | None = None
    sent: Sent = msgspec.field(default_factory=Sent)
    answers: dict[str, Answer] = {}
    utterances: dict[str, Utterance] = {}
    commits: list[str] = []
    asked: list[str] = []
    unwanted: bool = False
    last_answer: str | None = None
    told_item: str | None = None
    held_outputs: list[tuple[str, str]] = []

    def packed(self) -> bytes:
        """For the log."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpacked(cls, memory: bytes) -> Standing | None:
        """What ``packed`` made; ``None`` for anything else."""
        try:
            standing = msgspec.msgpack.decode(memory, type=cls)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None
        return standing if standing.v == VERSION and standing.session_id else None


def read_event_id(text: str) -> tuple[str, int, int, str, str] | None:
    """The parts of a name that ``Sent.event_id`` gave: kind, audio_ms, epoch, turn, asked."""
    try:
        return msgspec.json.decode(text, type=tuple[str, int, int, str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def _up_to(names: Sequence[str], last: str) -> list[str]:
    if not last:
        return []
    return [*names[: list(names).index(last) + 1]] if last in names else [*names, last][-KEPT:]
