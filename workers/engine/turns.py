"""What a model offers that is asked turn by turn: a prompt in, an answer out token by token, many beside each other.

A turn occupies a slot from when its prompt is read until its answer ends. Turns join and leave between two steps. A
factory ``make(options) -> TurnEngine`` is named as for a ``FrameEngine``; that it has ``ask`` tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .contract import EngineFacts
from .wire import Message


@dataclass(frozen=True, slots=True)
class Call:
    """A tool the model wants run; ``name`` is missing where it wrote none. ``arguments`` is a JSON text."""

    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class TurnPiece:
    """What one step gave of one turn: words, int16 ``pcm`` with what it is, and what must be remembered of it.

    ``memory`` is what ``TurnEngine.ask`` needs to go on behind this piece. ``audio_metadata`` says what ``pcm`` is
    (``format``, ``sample_rate_hz``, ``frame_count``, ``channels``) and is there whenever ``pcm`` is. ``ends`` is empty
    until the last piece: ``stop`` or ``length``. The counts of tokens and the ``calls`` come with that one.
    ``drew`` is how many tokens of words and how many frames of sound this step made, whatever is told of them yet.
    """

    text: str = ""
    pcm: bytes = b""
    memory: bytes = b""
    audio_metadata: Mapping[str, Any] | None = None
    ends: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    calls: tuple[Call, ...] = ()
    drew: tuple[int, int] = (0, 0)


class TurnEngine(Protocol):
    """A loaded model with a fixed number of slots; ``facts.frame_ms`` is how much sound a step can give.

    Called from one thread. What happens in one slot changes nothing in another.
    """

    facts: EngineFacts

    def load(self) -> None:
        """Load weights and warm up. Raises: with what is missing."""

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        """Begin a turn in a free ``slot``: exhausting the iterator reads its prompt, one bounded piece at a time.

        ``sounds`` are int16 at the input rate, which ``asked`` refers to by number. With ``memory``, the concatenated
        ``TurnPiece.memory`` of a turn that was asked the same, the answer goes on behind what that one had given:
        ``asked["told"]`` says how many characters and bytes of sound those were. Raises, at once or on the way:
        EngineRefused, EngineFull (also for memory that the device does not have).
        """

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        """One token step of each of ``slots``, which are asked and different, in this order.

        A result does not depend on which others step beside it. When it raises, no slot has gone on: the same may be
        asked of fewer. Raises: EngineDead, EngineFull.
        """

    def drop(self, slot: int) -> None:
        """Free ``slot``, whether its answer ended or not. Idempotent."""


def pack_turn(asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> tuple[dict[str, Any], bytes]:
    """One turn as the opening of an engine's session and the bytes beside it."""
    return {**asked, "sizes": [len(sound) for sound in sounds]}, b"".join((*sounds, memory))


def unpack_turn(opening: Mapping[str, Any], blob: bytes) -> tuple[list[bytes], bytes]:
    """The sounds and the memory of what ``pack_turn`` made."""
    sounds, at = [], 0
    for size in opening["sizes"]:
        sounds.append(blob[at : at + size])
        at += size
    return sounds, blob[at:]


def pack_pieces(pieces: Sequence[tuple[str, TurnPiece]]) -> tuple[list[Message], bytes]:
    """Rows of a message for pieces of turns, by name, and the bytes beside it."""
    rows, parts = [], []
    for turn, piece in pieces:
        row: Message = {"turn": turn, "text": piece.text, "sizes": [len(piece.memory), len(piece.pcm)]}
        if piece.audio_metadata is not None:
            row["audio_metadata"] = dict(piece.audio_metadata)
        if any(piece.drew):
            row["drew"] = list(piece.drew)
        if piece.ends:
            row |= {"ends": piece.ends, "tokens": [piece.input_tokens, piece.output_tokens]}
            row["calls"] = [[call.name, call.arguments] for call in piece.calls]
        rows.append(row)
        parts += [piece.memory, piece.pcm]
    return rows, b"".join(parts)


def unpack_pieces(rows: Sequence[Message], blob: bytes) -> Iterator[tuple[str, TurnPiece]]:
    """The pieces of what ``pack_pieces`` made."""
    at = 0
    for row in rows:
        middle = at + row["sizes"][0]
        end = middle + row["sizes"][1]
        read, written = row.get("tokens", (0, 0))
        words, frames = row.get("drew", (0, 0))
        yield (
            row["turn"],
            TurnPiece(
                text=row["text"],
                pcm=blob[middle:end],
                memory=blob[at:middle],
                audio_metadata=row.get("audio_metadata"),
                ends=row.get("ends", ""),
                input_tokens=read,
                output_tokens=written,
                calls=tuple(Call(name, arguments) for name, arguments in row.get("calls", ())),
                drew=(words, frames),
            ),
        )
        at = end
