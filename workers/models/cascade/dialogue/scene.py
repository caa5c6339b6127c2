"""What an answer is made from, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class Line:
    """One line of the conversation so far; ``role`` as in ``HistoryItem``. Assistant and ``call_id``: it is a call."""

    role: str
    text: str
    call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the client's that may be called; ``parameters`` is its JSON schema."""

    name: str
    description: str = ""
    parameters: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment of a conversation: ``utterance`` is to be answered, ``past`` is what came before it, oldest first."""

    utterance: str
    past: Sequence[Line] = ()
    now: datetime = datetime(2000, 1, 1)
    instructions: str | None = None
    tools: Sequence[Tool] = ()
    temperature: float | None = None
    max_tokens: int | None = None

    def user_lines(self) -> list[str]:
        """Everything the caller said, oldest first, the utterance last."""
        return [*(line.text for line in self.past if line.role == "user"), self.utterance]

    def last_said(self) -> str:
        """What the assistant said last, or an empty text."""
        spoken = (line.text for line in reversed(self.past) if line.role == "assistant" and line.call_id is None)
        return next(spoken, "")


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of the answer: one sentence or a few, with the white space that follows. Joined they are the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call; ``arguments`` is a JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Counted:
    """How many tokens the model behind an answer read and made; part of what is told of the answer, not of it."""

    read: int = 0
    made: int = 0


Part = Say | Call | Counted


@dataclass(frozen=True, slots=True)
class Manner:
    """How to speak: ``speed`` 1.0 is usual, ``gain`` multiplies the samples."""

    speed: float = 1.0
    gain: float = 1.0


def read_tools(tools: Sequence[dict[str, object]]) -> tuple[Tool, ...]:
    """The session's tool list, flat or wrapped in ``function``; entries without a name are left out."""
    found = []
    for entry in tools:
        inner = entry.get("function")
        body = inner if isinstance(inner, dict) else entry
        name, parameters = body.get("name"), body.get("parameters")
        if isinstance(name, str) and name:
            schema = parameters if isinstance(parameters, dict) else {}
            found.append(Tool(name, str(body.get("description") or ""), schema))
    return tuple(found)
