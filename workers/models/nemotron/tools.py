"""The channel beside speech on which the model calls tools and gets their outputs, a token a frame. Pure.

The model is shown its tools in the prompt. A call is ``OPEN``, then
``<TOOLCALL>[{"name": …, "arguments": …}, …]</TOOLCALL>``, and ``CLOSE``, torn over as many frames as it has tokens;
speech goes on meanwhile. What the tools gave is forced into the channel as ``<TOOL_RESPONSE>[…]</TOOL_RESPONSE>`` and
``RESPONSE_END``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

OPEN, CLOSE, RESPONSE_END = "<SPECIAL_20>", "<SPECIAL_21>", "<SPECIAL_22>"
MOST_TOOLS = 5
MOST_PENDING = 8
"""Batches of outputs that may wait to be forced in: each takes seconds, a frame a token."""
LONGEST_CALL_CHARS = 16_384
"""A call that grows longer is none: whatever the model is doing, it is not calling a tool."""

_RULE = (
    "Call a tool by answering with its name and arguments in this form, and with nothing else: "
    '<TOOLCALL>[{"name": ..., "arguments": ...}, ...]</TOOLCALL>'
)


class TooManyOutputs(Exception):
    """More outputs wait to be said to the model than it could take in."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call; ``arguments`` is a JSON text. Without a ``name`` it could not be read, and is what the model wrote."""

    name: str | None
    arguments: str


def prompt_of(instructions: str, tools: Sequence[Mapping[str, object]]) -> str:
    """The system prompt: ``instructions``, then the tools. Raises: ValueError naming the tool that cannot be shown."""
    if not tools:
        return instructions
    if len(tools) > MOST_TOOLS:
        raise ValueError(f"{len(tools)} tools; this model takes at most {MOST_TOOLS}")
    shown = json.dumps([_shown(place, tool) for place, tool in enumerate(tools)], ensure_ascii=False)
    parts = [instructions] if instructions else []
    return "\n".join([*parts, f"<AVAILABLE_TOOLS>{shown}</AVAILABLE_TOOLS>", _RULE])


def _shown(place: int, tool: Mapping[str, object]) -> dict[str, object]:
    inner = tool.get("function", tool)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(name, str) or not name:
        raise ValueError(f"tools[{place}] has no name")
    return {
        "name": name,
        "description": inner.get("description", ""),
        "parameters": inner.get("parameters", {}),
    }


class CallReader:
    """Takes the channel's text as it comes, a token or a few characters at a time, and gives whole calls."""

    def __init__(self) -> None:
        self._text = ""
        self._is_open = False

    @property
    def is_calling(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._is_open

    def feed(self, text: str) -> list[ToolCall]:
        """The calls that ``text`` completes, in order. What lies outside of calls is left out."""
        self._text += text
        found: list[ToolCall] = []
        while True:
            if not self._is_open:
                before, marker, rest = self._text.partition(OPEN)
                if not marker:
                    self._text = before[-len(OPEN) + 1 :]
                    return found
                self._text, self._is_open = rest, True
            body, marker, rest = self._text.partition(CLOSE)
            if marker:
                found += calls_of(body)
                self._text, self._is_open = rest, False
            elif len(self._text) > LONGEST_CALL_CHARS:
                found.append(ToolCall(None, self._text))
                self._text, self._is_open = "", False
            else:
                return found


def calls_of(body: str) -> list[ToolCall]:
    """The calls of one ``<TOOLCALL>[…]</TOOLCALL>``; what cannot be read is one call without a name."""
    inner = body.strip().removeprefix("<TOOLCALL>").removesuffix("</TOOLCALL>").strip()
    try:
        said = json.loads(inner)
    except (ValueError, RecursionError):
        return [ToolCall(None, inner)]
    return [_call(one) for one in (said if isinstance(said, list) else [said])]


def _call(said: object) -> ToolCall:
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(name, str) or not name:
        return ToolCall(None, json.dumps(said, ensure_ascii=False))
    arguments = said.get("arguments", {})
    return ToolCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))


class OutputFeeder:
    """The outputs that wait to be forced into the channel, as ids; ``encode`` knows each marker as one id."""

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode
        self._batches: deque[deque[int]] = deque()

    def __len__(self) -> int:
        """Batches that wait, the one that is being fed included."""
        return len(self._batches)

    def put(self, outputs: Sequence[str]) -> None:
        """Let one batch wait: the outputs of calls that were made together. Raises: TooManyOutputs."""
        if len(self._batches) >= MOST_PENDING:
            raise TooManyOutputs(f"{MOST_PENDING} tool outputs are waiting to be said to the model already")
        self._batches.append(deque(self._encode(response_of(outputs) + RESPONSE_END)))

    def take(self) -> int | None:
        """The id to force into the next frame; ``None`` leaves the frame to the model."""
        if not self._batches:
            return None
        batch = self._batches[0]
        number = batch.popleft()
        if not batch:
            self._batches.popleft()
        return number


def response_of(outputs: Sequence[str]) -> str:
    """Outputs in the model's form: each as the JSON it is, or as a text. Markers in them are broken up."""
    said = json.dumps([_parsed(output) for output in outputs], ensure_ascii=False)
    said = said.replace("<SPECIAL_", "< SPECIAL_").replace("TOOL_RESPONSE>", "TOOL_RESPONSE >")
    return f"<TOOL_RESPONSE>{said}</TOOL_RESPONSE>"


def _parsed(output: str) -> object:
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return output
