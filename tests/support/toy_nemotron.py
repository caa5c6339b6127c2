"""A frame engine with a channel beside speech that needs nothing: it obeys what a caller's frame says by its level.

Frames are 20 ms at 16 kHz, so that tests are quick. A frame's first sample, in thousandths, is a command (``SAY`` and
those after it). Sound of another kind is speech: once a silent frame follows it, ``SAID`` is said. Words and pieces of
calls come one a frame; what is forced into the channel is answered with ``The answer is`` and what it was.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused, Floats, Stepped

FRAME_SAMPLES = 320
SAY, CALL, CALL_ALL, BROKEN, UNCLOSED, LONG = 1, 2, 3, 4, 5, 6
SICK, DEADLY, CRASHING = 500, 750, 900
SPEECH = 30
"""What a frame of speech is noted as."""
SAID = "Hello Martin, how are you today? I am well, thank you."
TALE = "Once there was a king, and he had a daughter. " * 6
PIECE_CHARS = 6
MOST_TOKENS = 400
_TOKEN = re.compile(rf"<SPECIAL_\d+>|.{{1,{PIECE_CHARS}}}?(?=<SPECIAL_)|.{{1,{PIECE_CHARS}}}", re.S)
_RECORD = struct.Struct("<h24s")


def tokens(text: str) -> list[str]:
    """``text`` as the toy's tokens: markers are one each, all else is cut into pieces."""
    return _TOKEN.findall(text)


@dataclass
class Mind:
    """One session: what it still says and writes, and what is being forced into it."""

    prompt: str
    tools: list[str]
    words: deque[str] = field(default_factory=deque)
    pieces: deque[str] = field(default_factory=deque)
    pending: deque[str] = field(default_factory=deque)
    taken: str = ""
    has_heard: bool = False

    def live(self, command: int, token: str) -> tuple[str, str]:
        """One frame: what is said, nothing while ``token`` is forced into the channel, and what the channel gives."""
        self.obey(command)
        forced = bool(token)
        if forced:
            self.take(token)
        elif self.pieces:
            token = self.pieces.popleft()
        return (self.words.popleft() if self.words and not forced else "", token)

    def obey(self, command: int) -> None:
        if command == SPEECH:
            self.has_heard = True
        elif command == SAY or (command == 0 and self.has_heard):
            self.has_heard = False
            self.say(SAID)
        elif command == LONG:
            self.say(TALE)
        elif command in (CALL, CALL_ALL, BROKEN, UNCLOSED):
            self.call(command)

    def say(self, text: str) -> None:
        self.words.extend(re.findall(r"\S+\s*", text))

    def call(self, command: int) -> None:
        names = self.tools[:1] if command == CALL else self.tools
        body = json.dumps([{"name": name, "arguments": {"city": "Bern"}} for name in names])
        if command in (BROKEN, UNCLOSED):
            body = body[:-9]
        end = "" if command == UNCLOSED else "</TOOLCALL><SPECIAL_21>"
        self.pieces.extend(tokens(f"<SPECIAL_20><TOOLCALL>{body}{end}"))

    def take(self, token: str) -> None:
        self.taken += token
        if token == "<SPECIAL_22>":
            inner = self.taken.removeprefix("<TOOL_RESPONSE>").removesuffix("</TOOL_RESPONSE><SPECIAL_22>")
            self.say(f"The answer is {inner}. ")
            self.taken = ""


class ToyNemotron:
    """Rebuilds a session from its memory exactly: one record is a frame's command and what was forced in it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.facts = EngineFacts(
            name="toy nemotron",
            frame_ms=int(options.get("frame_ms", "20")),
            input_rate_hz=16_000,
            output_rate_hz=22_050,
            slots=int(options.get("slots", "4")),
            window_frames=1000,
            memory_bytes=_RECORD.size,
        )
        self._minds: dict[int, Mind] = {}

    def load(self) -> None:
        pass

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        if opening.get("voice") == "unknown":
            raise EngineRefused("invalid_duplex_runtime_config", "no such voice", "session.voice")
        return self._prepare(slot, opening, memory)

    def _prepare(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        mind = self._minds[slot] = Mind(opening["prompt"], [tool["name"] for tool in opening["tools"]])
        for command, token in _RECORD.iter_unpack(memory):
            yield
            mind.live(command, token.rstrip(b"\0").decode())

    def inform(self, slot: int, text: str, told: int = 0) -> None:
        if "unsayable" in text:
            raise ValueError("told to fail")
        left = tokens(text)[told:]
        if len(self._minds[slot].pending) + len(left) > MOST_TOKENS:
            raise EngineFull(f"{len(left)} tokens are too many")
        self._minds[slot].pending.extend(left)

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        commands = [_command(frame) for frame in frames]
        if CRASHING in commands:
            os._exit(3)
        if DEADLY in commands:
            raise EngineDead("told to die")
        if SICK in commands:
            raise ValueError("told to fail")
        return [self._one(slot, command) for slot, command in zip(slots, commands, strict=True)]

    def _one(self, slot: int, command: int) -> Stepped:
        mind = self._minds[slot]
        forced = mind.pending.popleft() if mind.pending else ""
        word, token = mind.live(command, forced)
        memory = _RECORD.pack(command, forced.encode())
        return Stepped(b"", word, speaks=bool(word), memory=memory, function=token, forced=bool(forced))

    def close(self, slot: int) -> None:
        self._minds.pop(slot, None)


def make(options: Mapping[str, str]) -> ToyNemotron:
    """The engine; of what operators may set it knows ``slots``."""
    return ToyNemotron({name: value for name, value in options.items() if name == "slots" and value.isdecimal()})


def make_published(options: Mapping[str, str]) -> ToyNemotron:
    """The engine with frames as long as the model's own."""
    return ToyNemotron({"frame_ms": "80"})


def _command(frame: Floats) -> int:
    level = round(float(frame[0]) * 1000)
    if level in (SAY, CALL, CALL_ALL, BROKEN, UNCLOSED, LONG, SICK, DEADLY, CRASHING):
        return level
    return SPEECH if float(np.abs(frame).max()) > 0.01 else 0


def frame(command: int = 0) -> bytes:
    """The float32 frame that says ``command``; none is silence."""
    return np.full(FRAME_SAMPLES, command / 1000, np.float32).tobytes()
