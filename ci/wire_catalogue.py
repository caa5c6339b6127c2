"""The generated parts of docs/reference/realtime-api.md: what each event looks like, an example of it, and its tests.

The rules themselves are written by hand on the page; here stands only what the code, the worked examples and the tests
already say. ``shown_by`` finds the tests: functions marked ``@pytest.mark.shows("<wire name>", ...)``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union

import msgspec
from msgspec import UNSET, UnsetType

from duplex_es.log.settings import LogSettings
from duplex_es.model import ModelInfo
from duplex_es.protocol import codec, commands, frames, objects, session_config, wire_media
from duplex_es.protocol.audio import DEFAULT_RATE_HZ, INPUT_ENCODINGS, MAX_RATE_HZ, MIN_RATE_HZ, OUTPUT_ENCODINGS
from duplex_es.protocol.audio import SPELLINGS as AUDIO_SPELLINGS
from duplex_es.protocol.catalogue import CATALOGUE, SECTIONS, Event
from duplex_es.session.lifecycle import DISCONNECT_GRACE_S, MAX_IDLE_S
from gateway.settings import Settings as GatewaySettings
from workers.models.scripted.profiles import PROFILES
from workers.plugins import make_model
from workers.retention import MIB, WINDOW_BYTES, WINDOW_MS
from workers.settings import WorkerSettings

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "realtime-api.md"
EXAMPLES = ROOT / "tests" / "protocol" / "fixtures" / "seed_examples.json"
TEST_FOLDERS = ("protocol", "session", "gateway", "workers", "client", "conformance", "e2e", "chaos")
MODELS = ("cascade", "echo", "scripted")
OBJECTS = (
    objects.Item,
    objects.ContentPart,
    objects.ResponseObject,
    objects.StatusDetails,
    objects.Usage,
    objects.PlaybackLedger,
    objects.AudioTextMark,
    frames.OutputMetadata,
    frames.InputCommitted,
    frames.PlaybackAck,
    objects.ErrorBody,
    objects.SessionObject,
    objects.Capabilities,
)
"""Shapes that events share, in the order of the page."""

_JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", bytes: "base64 string"}
_STAMPS = ("event_id", "server_event_seq")


def struct_of(event: Event) -> type[msgspec.Struct]:
    """The struct that reads or writes an event."""
    table: dict[str, Any] = {**commands.COMMANDS, **frames.FRAMES, **frames.EXTENSIONS}
    found: type[msgspec.Struct] = table[event.name]
    return found


def table(titles: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; pipes inside cells are escaped."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


# -- fields --------------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """One field as a client sees it: its JSON type, whether it is always there, and its other names."""

    name: str
    type: str
    required: bool
    others: tuple[str, ...] = ()


def fields_of(struct: type[msgspec.Struct], wire: str = "") -> list[Field]:
    """The fields of a struct in order, without the stamps every event has."""
    hints = typing.get_type_hints(struct, include_extras=True)
    names: dict[str, str] = codec.FIELD_ALIASES.get(wire, {})
    return [
        Field(
            info.encode_name,
            json_type(hints[info.name]),
            info.required or info.default is not UNSET,
            tuple(alias for alias, name in names.items() if name == info.encode_name),
        )
        for info in msgspec.structs.fields(struct)
        if info.encode_name not in _STAMPS
    ]


def json_type(hint: Any) -> str:
    """A type as JSON has it: ``list of string``, ``integer or null``, or the name of a shape of this page."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return json_type(typing.get_args(hint)[0])
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(json_type(part) for part in typing.get_args(hint) if part is not UnsetType)
        if {"integer", "number"} <= kinds.keys():
            del kinds["integer"]
        return " or ".join(sorted(kinds, key=lambda kind: kind == "null"))
    if origin is list:
        return f"list of {json_type(typing.get_args(hint)[0])}"
    if origin is dict or hint is dict:
        return "object"
    if hint is type(None):
        return "null"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})" if hint in OBJECTS else "object"
    return _JSON_NAMES.get(hint, "any")


def field_table(fields: list[Field], present: str = "always there") -> str:
    """The fields as a Markdown table, ``present`` heading what is never missing; an empty text when there are none."""
    if not fields:
        return ""
    has_others = any(field.others for field in fields)
    titles = ["field", "type", present, *(["other names"] if has_others else [])]
    rows = [
        [
            f"`{field.name}`",
            field.type,
            "yes" if field.required else "",
            *([", ".join(f"`{name}`" for name in field.others)] if has_others else []),
        ]
        for field in fields
    ]
    return table(titles, rows)


# -- examples and tests --------------------------------------------------------------------------------------------


@functools.cache
def examples() -> dict[str, list[dict[str, Any]]]:
    """Wire name → its worked examples."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(EXAMPLES.read_text()):
        found.setdefault(row["event"]["type"], []).append(row["event"])
    return found


def pretty(value: object, indent: int = 0, width: int = 110) -> str:
    """JSON that breaks a line only where it would be too long."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= width or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {pretty(one, inner, width)}" for key, one in value.items()]
    else:
        parts = [pretty(one, inner, width) for one in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(" " * inner + part for part in parts)
    return f"{opened}\n{body}\n{' ' * indent}{closed}"


class Showing(NamedTuple):
    """A test that shows an event. ``expected_to_fail``: the service cannot do it yet."""

    path: Path
    name: str
    expected_to_fail: bool


@functools.cache
def shown_by() -> dict[str, list[Showing]]:
    """Wire name → the tests that say they show it, by file and line."""
    found: dict[str, list[Showing]] = {}
    for folder in TEST_FOLDERS:
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
            for name, wire_names, fails in _showings(ast.parse(path.read_text())):
                for wire_name in wire_names:
                    found.setdefault(wire_name, []).append(Showing(path.relative_to(ROOT), name, fails))
    return found


def _showings(tree: ast.Module) -> Iterator[tuple[str, list[str], bool]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        marks = [_called(decorator) for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
        names = [
            argument.value
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call) and _called(decorator) == "shows"
            for argument in decorator.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if names:
            yield node.name, names, "xfail" in marks


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


# -- blocks --------------------------------------------------------------------------------------------------------


def event_block(name: str) -> str:
    """Everything about one event that is known without reading its rule. Raises: KeyError for an unknown name."""
    event = CATALOGUE[name]
    struct = struct_of(event)
    aliases = [f"`{alias}`" for alias, target in commands.ALIASES.items() if target == name]
    facts = [
        "client → server" if event.direction == "client" else "server → client",
        f"tier {event.tier}",
        *(["extension of this service"] if event.extension else []),
        *([f"aliases {', '.join(aliases)}"] if aliases else []),
        f"`{struct.__name__}`",
    ]
    shown = examples().get(name, [])
    code = "\n\n".join(f"```json\n{pretty(example)}\n```" for example in shown)
    present = "required" if event.direction == "client" else "always there"
    fields = field_table(fields_of(struct, name), present).strip()
    parts = [" · ".join(facts), fields, code, _tests(name)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tests(name: str) -> str:
    lines = [
        f"[`{test.path.name}`](../../{test.path}) `{test.name}`{' (not yet)' if test.expected_to_fail else ''}"
        for test in shown_by().get(name, [])
    ]
    return "Shown by " + ",\n".join(lines) + "." if lines else "Not shown by any test."


def index_block() -> str:
    """Every event, with its rule in one sentence, by the parts of the page."""
    parts = []
    for section in SECTIONS:
        rows = [
            [
                f"[`{event.name}`](#{anchor(event.name)})",
                "→" if event.direction == "client" else "←",
                f"{event.tier}{' +' if event.extension else ''}",
                event.rule,
            ]
            for event in CATALOGUE.values()
            if event.section == section
        ]
        parts.append(f"**{section}**\n\n{table(['event', '', 'tier', 'rule'], rows)}")
    return "\n".join(parts)


def anchor(title: str) -> str:
    """A heading's anchor as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def objects_block() -> str:
    """The shapes that several events share."""
    parts = []
    for struct in OBJECTS:
        promise = " ".join((inspect.getdoc(struct) or "").replace("``", "`").split())
        parts.append(f"#### {struct.__name__}\n\n{promise}\n\n{field_table(fields_of(struct))}")
    return "\n".join(parts)


def limits_block() -> str:
    """Every number that a client can run into, from the code that enforces it."""
    gateway, worker, log = GatewaySettings(), WorkerSettings(), LogSettings()
    rows: list[list[str]] = [
        ["the first event of a socket", f"{gateway.config_timeout_s:g} s", "`config_timeout`, the socket is closed"],
        [
            "a worker opens the session",
            f"{gateway.opening_timeout_s:g} s",
            "`runtime_open_failed`, the socket is closed",
        ],
        ["one client event", f"{codec.MAX_EVENT_BYTES:,} bytes of UTF-8", "`event_too_large`, the event is skipped"],
        ["nesting of a client event", f"{codec.MAX_NESTING} levels", "`bad_event`"],
        ["`video_frames` of one append", f"{wire_media.MAX_VIDEO_FRAMES} images", "`invalid_video_frames`"],
        ["one image", f"{wire_media.MAX_VIDEO_FRAME_CHARS:,} base64 characters", "`invalid_video_frames`"],
        [
            "a declared sample rate",
            f"{MIN_RATE_HZ:,} to {MAX_RATE_HZ:,} Hz",
            "`unsupported_audio_format` in settings, `bad_event` on an append",
        ],
        [
            "silence of the client (`idle_timeout_s`)",
            f"{session_config.DEFAULT_IDLE_TIMEOUT_S:g} s unless set, "
            f"{session_config.MIN_IDLE_TIMEOUT_S:g} s to {MAX_IDLE_S / 86_400:g} days",
            "`session.closed`, reason `timeout`",
        ],
        [
            "absence of the client",
            f"{DISCONNECT_GRACE_S:g} s, `--disconnect-grace-s` of the worker",
            "the session ends, reason `disconnect_grace_expired`; a resume is too late",
        ],
        [
            "idleness of the session, heartbeats not counted as such",
            f"{worker.idle_ttl_s:g} s",
            "`session.expired`, reason `idle_ttl_expired`",
        ],
        [
            "what a resume can ask for again",
            f"frames of {WINDOW_MS // 1000} s, up to {WINDOW_BYTES // MIB} MiB; more if the log still has them",
            "`session.resync_required`, reason `journal_gap`",
        ],
        ["a gateway or worker that says nothing", f"{log.lease_s:g} s", "its sockets and sessions are taken from it"],
        ["the session log does not answer", f"{gateway.log_patience_s:g} s", "`log_unavailable`, close 1013"],
        [
            "a gateway that stops, for an answer that is under way",
            f"{gateway.drain_s:g} s",
            "`session.going_away`, then close 1012",
        ],
        ["a client takes nothing of what it is sent", f"{gateway.stall_s:g} s", "close 1013; it can resume"],
        [
            "sessions opened and taken up at once, on one gateway",
            f"{gateway.admit_at_once}, and {gateway.admit_waiting:,} waiting up to {gateway.admit_patience_s:g} s",
            "`duplex_session_busy` with `retry_after_ms`, close 1013",
        ],
        ["`ref_audio` in the echo of the settings", f"{session_config.REF_AUDIO_ECHO_CHARS:,} characters", "left out"],
    ]
    return table(["what", "limit", "beyond it"], rows)


def audio_block() -> str:
    """Every spelling of every audio encoding."""
    rows = []
    for encoding in dict.fromkeys(AUDIO_SPELLINGS.values()):
        spelled = [f"`{name}`" for name, meant in AUDIO_SPELLINGS.items() if meant == encoding]
        rows.append(
            [
                f"`{encoding}`",
                ", ".join(spelled),
                "yes" if encoding in INPUT_ENCODINGS else "",
                "yes" if encoding in OUTPUT_ENCODINGS else "",
                f"{DEFAULT_RATE_HZ[encoding]:,} Hz",
            ]
        )
    return table(["encoding", "spellings, in any case", "in", "out", "input rate when none is named"], rows)


def capabilities_block() -> str:
    """What each built-in model advertises."""
    return _capabilities({name: make_model(name, {}).info for name in MODELS})


def published_block() -> str:
    """What each published model advertises."""
    return _capabilities({profile.info.name: profile.info for profile in PROFILES.values()})


def _capabilities(cards: dict[str, ModelInfo]) -> str:
    shown = {name: msgspec.to_builtins(card.capabilities) for name, card in cards.items()}
    flags = dict.fromkeys(flag for card in shown.values() for flag in card)
    rows = [[f"`{flag}`", *(_shown(card.get(flag)) for card in shown.values())] for flag in flags]
    return table(["capability", *(f"`{name}`" for name in shown)], rows)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(f"`{one}`" for one in value)
    return "none" if value is None else f"`{value}`" if isinstance(value, str) else str(value)


TABLES: dict[str, Callable[[], str]] = {
    "event-index": index_block,
    "wire-objects": objects_block,
    "limits": limits_block,
    "audio-formats": audio_block,
    "capabilities": capabilities_block,
    "published-capabilities": published_block,
}
"""Block name → its text."""
