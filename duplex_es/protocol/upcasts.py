"""Records of older builds as this build writes them: one step for each schema version, applied one after another.

Version 1 is what this build writes. A change of the schema (a field that means something else, a name, a unit; not a
field that is added with a default) raises ``SCHEMA_VERSION``, keeps the old layout here as structs, and adds the step
from the version before to both chains. Steps go from bytes to bytes of the next version; none is ever removed, and a
recording of each version stays in ``tests/corpus``. What stands in the log is not rewritten: readers upcast as they
read.

| version | layout |
|---|---|
| 0 | before the first release: ``at_s`` in seconds, facts as ``events`` whose ``kind`` names them |
| 1 | ``at_ms``, ``facts`` named by ``fact`` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

SCHEMA_VERSION = 1
Step = Callable[[bytes], bytes]
_CURRENT = b"\xa1v" + msgspec.msgpack.encode(SCHEMA_VERSION)
_PACK = msgspec.msgpack.Encoder()


class SchemaUnknown(Exception):
    """A record names a schema version that this build cannot read; the message says which, and what to do."""


class _Version(msgspec.Struct):
    """The one field that every version has."""

    v: int


# -- version 0 -----------------------------------------------------------------------------------------------------


class InputRecord0(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, as version 0 has it. ``at_s`` is Unix seconds."""

    v: int = 0
    at_s: float
    said: msgspec.Raw


class OutputRecord0(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one decision, as version 0 has it. ``events`` are the facts."""

    v: int = 0
    at_s: float
    frame: msgspec.Raw | UnsetType = UNSET
    events: list[dict[str, Any]] | UnsetType = UNSET
    consumed: str | UnsetType = UNSET
    more: int = 0


class InputRecord1(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, as version 1 has it; its parts unread."""

    v: int = 1
    at_ms: int
    said: msgspec.Raw


class OutputRecord1(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one decision, as version 1 has it; its parts unread."""

    v: int = 1
    at_ms: int
    frame: msgspec.Raw | UnsetType = UNSET
    facts: list[dict[str, Any]] | UnsetType = UNSET
    consumed: str | UnsetType = UNSET
    more: int = 0


_INPUT_0 = msgspec.msgpack.Decoder(InputRecord0)
_OUTPUT_0 = msgspec.msgpack.Decoder(OutputRecord0)


def input_from_0(body: bytes) -> bytes:
    """Version 0 to 1. Raises: msgspec.MsgspecError for what is no record of version 0."""
    old = _INPUT_0.decode(body)
    return _PACK.encode(InputRecord1(at_ms=round(old.at_s * 1000), said=old.said))


def output_from_0(body: bytes) -> bytes:
    """Version 0 to 1. Raises: msgspec.MsgspecError for what is no record of version 0."""
    old = _OUTPUT_0.decode(body)
    facts: list[dict[str, Any]] | UnsetType = UNSET
    if not isinstance(old.events, UnsetType):
        facts = [{"fact" if name == "kind" else name: value for name, value in one.items()} for one in old.events]
    new = OutputRecord1(
        at_ms=round(old.at_s * 1000), frame=old.frame, facts=facts, consumed=old.consumed, more=old.more
    )
    return _PACK.encode(new)


INPUT_STEPS: dict[int, Step] = {0: input_from_0}
OUTPUT_STEPS: dict[int, Step] = {0: output_from_0}
"""Version → the step to the version after it."""


# -- the chain -----------------------------------------------------------------------------------------------------


def upcast(body: bytes, steps: Mapping[int, Step]) -> bytes:
    """``body`` as this build's version has it; what is no record at all comes back as it is.

    Raises: SchemaUnknown for a version that is newer than this build, or for which there is no step.
    """
    if body[1:4] == _CURRENT or body[3:6] == _CURRENT:
        return body
    version = _version_of(body)
    if version is None or version == SCHEMA_VERSION:
        return body
    said = f"schema version {version}; this build reads {SCHEMA_VERSION}"
    if version > SCHEMA_VERSION:
        raise SchemaUnknown(f"{said} and older: read it with a newer duplex-es")
    try:
        for number in range(version, SCHEMA_VERSION):
            body = steps[number](body)
    except KeyError as error:
        raise SchemaUnknown(f"{said}, and knows no step from {error}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SchemaUnknown(f"{said}; this record is none of its own version: {error}") from error
    return body


def readable(stream: str, body: bytes) -> bytes:
    """A body of ``input`` or ``output`` for readers of plain maps: upcast if that is possible, else as it is."""
    try:
        return upcast(body, INPUT_STEPS if stream == "input" else OUTPUT_STEPS)
    except SchemaUnknown:
        return body


def _version_of(body: bytes) -> int | None:
    try:
        return msgspec.msgpack.decode(body, type=_Version).v
    except (msgspec.MsgspecError, RecursionError):
        return None
