"""A turn engine that needs nothing: it counts what it was asked for, and can be told to misbehave."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused
from workers.engine.turns import Call, TurnPiece


class Turn:
    """One turn: what it was asked and how many steps it has made."""

    def __init__(self, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> None:
        self.asked = asked
        self.sounds = sounds
        self.steps = len(memory)


class ToyTurns:
    """It says ``asked["say"]`` letter by letter, each with two bytes of sound, and ends; an endless turn says ``.``.

    ``asked["reads"]`` is how many pieces its prompt has. A letter ``!`` fails the turn, ``#`` lacks memory for it,
    ``X`` ends the engine and ``Z`` the process. ``batches`` are the slots of each step, for tests.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.facts = EngineFacts(
            name="toy turns",
            frame_ms=20,
            input_rate_hz=16_000,
            output_rate_hz=24_000,
            slots=int(options.get("slots", "2")),
            window_frames=0,
            memory_bytes=0,
        )
        self.turns: dict[int, Turn] = {}
        self.reading: list[str] = []
        self.batches: list[list[int]] = []

    def load(self) -> None:
        pass

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        if asked.get("voice") == "unknown":
            raise EngineRefused("invalid_duplex_runtime_config", "no such voice", "session.voice")
        if asked.get("huge"):
            raise EngineFull("no memory for so long a prompt")
        assert slot not in self.turns
        self.turns[slot] = Turn(asked, sounds, memory)
        for _ in range(asked.get("reads", 1)):
            self.reading.append(asked.get("say", ""))
            yield

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        self.batches.append(list(slots))
        letters = [self._letter(slot) for slot in slots]
        if "X" in letters:
            raise EngineDead("told to die")
        if "Z" in letters:
            os._exit(3)
        if "!" in letters:
            raise ValueError("told to fail")
        if "#" in letters:
            raise EngineFull("the device has no memory left")
        return [self._piece(slot, letter) for slot, letter in zip(slots, letters, strict=True)]

    def _letter(self, slot: int) -> str:
        turn = self.turns[slot]
        if turn.asked.get("endless"):
            return "."
        said: str = turn.asked["say"]
        return said[turn.steps] if turn.steps < len(said) else ""

    def _piece(self, slot: int, letter: str) -> TurnPiece:
        turn = self.turns[slot]
        turn.steps += 1
        if not letter:
            calls = tuple(Call(name, "{}") for name in turn.asked.get("calls", ()))
            return TurnPiece(ends="stop", input_tokens=len(turn.sounds), output_tokens=turn.steps - 1, calls=calls)
        metadata = {"format": "pcm", "sample_rate_hz": 24_000, "frame_count": 1, "channels": 1}
        pcm = bytes([ord(letter), 0])
        return TurnPiece(text=letter, pcm=pcm, memory=letter.encode(), audio_metadata=metadata, drew=(1, 1))

    def drop(self, slot: int) -> None:
        self.turns.pop(slot, None)
