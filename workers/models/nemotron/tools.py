"""The channel beside speech on which the model calls tools and gets their outputs, a token a frame. Pure.

The model is shown its tools in the prompt. A call is ``OPEN``, then
``<TOOLCALL>[{"name": …, "arguments": …}, …]</TOOLCALL>``, and ``CLOSE``, torn over as many frames as it has tokens;
speech goes on meanwhile. What the tools gave is forced into the channel as ``<TOOL_RESPONSE>[…]</TOOL_RESPONSE>`` and
``RESPONSE_END``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cards import tool_name

OPEN, CLOSE, RESPONSE_END = "<SPECIAL_20>", "<SPECIAL_21>", "<SPECIAL_22>"
LONGEST_CALL_CHARS = 4_096
"""A call that grows longer is none: whatever the model is doing, it is not calling a tool."""
MOST_CALLS = 16
"""A list of more calls is none: nobody waits for so many, and each is remembered until it is told."""
STUCK_FRAMES = 50
"""A call of which nothing more was written for so long is not written to its end any more."""

_BROKEN_UP = (
    ("<SPECIAL_", "< SPECIAL_"),
    ("TOOL_RESPONSE>", "TOOL_RESPONSE >"),
    ("<s>", "< s>"),
    ("</s>", "< /s>"),
)
"""What would steer the model if an output held it: whoever wrote a web page that a tool reads is not to be obeyed."""

_RULE = (
    "Call a tool by answering with its name and arguments in this form, and with nothing else: "
    '<TOOLCALL>[{"name": ..., "arguments": ...}, ...]</TOOLCALL>'
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call; ``arguments`` is a JSON text. Without a ``name`` it could not be read, and is what the model wrote."""

    name: str | None
    arguments: str


def prompt_of(instructions: str, tools: Sequence[Mapping[str, object]]) -> str:
    """The system prompt: ``instructions``, then the tools, which have passed the model's card."""
    if not tools:
        return instructions
    shown = _json(list(map(_shown, tools)))
    parts = [instructions] if instructions else []
    return "\n".join([*parts, f"<AVAILABLE_TOOLS>{shown}</AVAILABLE_TOOLS>", _RULE])


def _shown(tool: Mapping[str, object]) -> dict[str, object]:
    inner = tool.get("function")
    inner = inner if isinstance(inner, Mapping) else tool
    return {
        "name": tool_name(tool),
        "description": inner.get("description", ""),
        "parameters": inner.get("parameters", {}),
    }


class CallReader:
    """Takes the channel's text as it comes, a token or a few characters at a time, and gives whole calls.

    ``calling`` is that of the one that read before: where a call broke off, it goes on.
    """

    def __init__(self, calling: str | None = None) -> None:
        self._text = calling or ""
        self._is_open = calling is not None
        self._silent = 0

    @property
    def is_calling(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._is_open

    @property
    def calling(self) -> str | None:
        """What there is of the call that is being written, ``None`` between calls."""
        return self._text if self._is_open else None

    def feed(self, text: str) -> list[ToolCall]:
        """The calls that ``text``, that of one frame, completes, in order. What lies outside of calls is left out."""
        self._text += text
        self._silent = 0 if text else self._silent + 1
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
            elif len(self._text) > LONGEST_CALL_CHARS or self._silent > STUCK_FRAMES:
                found.append(ToolCall(None, self._text))
                self._text, self._is_open = "", False
            else:
                return found


def calls_of(body: str) -> list[ToolCall]:
    """The calls of one ``<TOOLCALL>[…]</TOOLCALL>``; what cannot be read is one call without a name."""
    inner = body.strip().removeprefix("<TOOLCALL>").removesuffix("</TOOLCALL>").strip()
    try:
        said = json.loads(inner, parse_constant=_no_json)
        calls = [_call(one) for one in (said if isinstance(said, list) else [said])]
    except (ValueError, RecursionError):
        return [ToolCall(None, inner)]
    return calls if len(calls) <= MOST_CALLS else [ToolCall(None, inner)]


def _call(said: object) -> ToolCall:
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(name, str) or not name:
        return ToolCall(None, _json(said))
    arguments = said.get("arguments", {})
    return ToolCall(_whole(name), _whole(arguments) if isinstance(arguments, str) else _json(arguments))


def response_of(outputs: Sequence[str]) -> str:
    """Outputs in the model's form: each as the JSON it is, or as a text. Markers in them are broken up."""
    said = ", ".join(map(_told, outputs))
    for marker, broken in _BROKEN_UP:
        said = said.replace(marker, broken)
    return f"<TOOL_RESPONSE>[{said}]</TOOL_RESPONSE>"


def _told(output: str) -> str:
    try:
        return _json(json.loads(output))
    except (ValueError, RecursionError):
        return _json(output)


def _json(value: object) -> str:
    return _whole(json.dumps(value, ensure_ascii=False))


def _whole(text: str) -> str:
    """``text`` without halves of letters: JSON can escape one alone, and neither a log nor a tokenizer takes it."""
    return text.encode(errors="replace").decode()


def _no_json(constant: str) -> None:
    """Raises: ValueError for ``NaN`` and its like, which only Python reads."""
    raise ValueError(f"{constant} is no JSON")
