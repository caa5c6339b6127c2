"""A conversation as the ids the model was trained on. Pure: no tensors, no weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workers.engine.contract import EngineRefused

from .vocabulary import Vocabulary

SAMPLES_PER_FEATURE = 160
LEAST_SAMPLES = 1600
"""A tenth of a second: less is filled up with silence before it is heard."""

_TOOLS = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


@dataclass(frozen=True, slots=True)
class Markers:
    """The ids that structure a conversation, as the model's configuration names them."""

    im_start: int
    im_end: int
    system: int
    user: int
    assistant: int
    audio: int
    audio_start: int
    audio_end: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """``ids`` with a place for each vector of what is heard; ``sounds`` are the numbers of the sounds, in order.

    ``is_user`` says of each id whether it belongs to what a caller said: the talker listens to that.
    """

    ids: tuple[int, ...]
    is_user: tuple[bool, ...]
    sounds: tuple[int, ...]


@dataclass(slots=True)
class _Message:
    ids: list[int] = field(default_factory=list)
    sounds: list[int] = field(default_factory=list)
    is_user: bool = False


def vectors_of(samples: int, window: int = 50) -> int:
    """How many vectors the audio encoder makes of so many samples."""
    features = max(samples, LEAST_SAMPLES) // SAMPLES_PER_FEATURE
    chunk = 2 * window
    rest = features % chunk
    for _ in range(3):
        rest = (rest - 1) // 2 + 1
    return rest + features // chunk * _vectors_of_chunk(chunk)


def _vectors_of_chunk(chunk: int) -> int:
    for _ in range(3):
        chunk = (chunk - 1) // 2 + 1
    return chunk


class Prompter:
    """Makes prompts. ``window`` is the audio encoder's."""

    def __init__(self, vocabulary: Vocabulary, markers: Markers, window: int = 50) -> None:
        self._words = vocabulary
        self._markers = markers
        self._window = window
        self.audio = markers.audio
        self._newline = vocabulary.encode("\n")

    def prompt(self, asked: Mapping[str, Any], samples: Sequence[int], *, room: int) -> Prompt:
        """The prompt of a turn within ``room`` ids; the oldest messages are left out where it would be longer.

        ``asked["messages"]`` are objects with ``role`` and ``text``, and ``sound``, a number, where it was said aloud;
        ``samples`` are the lengths of the sounds. Raises: EngineRefused when the newest message alone is too long.
        """
        system = self._system(asked)
        messages = [self._message(one, samples) for one in asked["messages"]]
        ending = [self._markers.im_start, self._markers.assistant, *self._newline]
        left = room - len(ending) - len(system.ids)
        while len(messages) > 1 and sum(len(one.ids) for one in messages) > left:
            messages.pop(0)
        if sum(len(one.ids) for one in messages) > left:
            message = f"The turn and its instructions are longer than the {room} tokens this model was started with."
            raise EngineRefused("response_error", message)
        parts = [system, *messages, _Message(ending)]
        return Prompt(
            ids=tuple(number for part in parts for number in part.ids),
            is_user=tuple(part.is_user for part in parts for _ in part.ids),
            sounds=tuple(number for part in parts for number in part.sounds),
        )

    def _system(self, asked: Mapping[str, Any]) -> _Message:
        texts = [asked["instructions"]] if asked.get("instructions") else []
        if asked.get("tools"):
            signatures = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in asked["tools"])
            texts.append(_TOOLS.format(signatures=signatures))
        return _Message(self._framed(self._markers.system, self._text("\n\n".join(texts)))) if texts else _Message()

    def _message(self, said: Mapping[str, Any], samples: Sequence[int]) -> _Message:
        role, text, sound = said["role"], said.get("text", ""), said.get("sound")
        if role == "tool":
            body = self._text(f"<tool_response>\n{text}\n</tool_response>")
        elif said.get("call"):
            call = json.dumps({"name": said["call"], "arguments": _arguments(text)}, ensure_ascii=False)
            body = [self._words.tool_open, *self._text(f"\n{call}\n"), self._words.tool_close]
        else:
            body = self._text(text)
        marker = {"assistant": self._markers.assistant, "system": self._markers.system}.get(role, self._markers.user)
        if sound is None:
            return _Message(self._framed(marker, body), is_user=marker == self._markers.user)
        heard = [self._markers.audio] * vectors_of(samples[sound], self._window)
        body = [self._markers.audio_start, *heard, self._markers.audio_end, *body]
        return _Message(self._framed(marker, body), [sound], is_user=True)

    def _framed(self, marker: int, body: Sequence[int]) -> list[int]:
        return [self._markers.im_start, marker, *self._newline, *body, self._markers.im_end, *self._newline]

    def _text(self, text: str) -> list[int]:
        return self._words.encode(text) if text else []


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
