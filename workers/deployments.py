"""Deployment files: which model, for how many sessions, with which options, in one reviewed TOML file.

Flags and variables win over the file; what it may say is listed here, and anything else is refused by its name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SESSION_MODE = "duplex"
TEXT, NUMBER, WHOLE = (str,), (int, float), (int,)
TOP: Mapping[str, tuple[type, ...]] = {"model": TEXT, "session_mode": TEXT, "python": TEXT}
SESSION: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "max_sessions": ("slots", WHOLE),
    "disconnect_grace_s": ("disconnect_grace_s", NUMBER),
    "idle_timeout_s": ("idle_ttl_s", NUMBER),
    "max_session_s": ("max_session_s", NUMBER),
    "drain_s": ("drain_s", NUMBER),
}
"""What ``[duplex_session]`` may hold, and the worker's setting that it is."""
_NAMES: Mapping[tuple[type, ...], str] = {TEXT: "a text", NUMBER: "a number", WHOLE: "a whole number"}


class DeploymentUnreadable(ValueError):
    """The file is not there, is no TOML, or says what it may not; the message names the file and the key."""


def read_deployment(path: Path) -> dict[str, object]:
    """The worker's settings that ``path`` holds, by their names; ``model_option`` as KEY=VALUE texts.

    Raises: DeploymentUnreadable.
    """
    try:
        held = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeploymentUnreadable(f"{path}: {error}") from error
    known = {*TOP, "duplex_session", "options"}
    for key in held:
        if key not in known:
            raise DeploymentUnreadable(f"{path}: {key} is unknown; there are {', '.join(sorted(known))}")
    for key, kinds in TOP.items():
        if key in held:
            _check(path, key, held[key], kinds)
    if "model" not in held:
        raise DeploymentUnreadable(f"{path}: model is missing")
    if held.get("session_mode", SESSION_MODE) != SESSION_MODE:
        raise DeploymentUnreadable(f"{path}: session_mode is {held['session_mode']!r}; it is {SESSION_MODE!r}")
    found: dict[str, object] = {"model": held["model"], **_session(path, _table(path, held, "duplex_session"))}
    options = _options(path, _table(path, held, "options"))
    if "python" in held:
        options.append(f"python={held['python']}")
    return found | {"model_option": options}


def _session(path: Path, table: Mapping[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        if key not in SESSION:
            allowed = ", ".join(sorted(SESSION))
            raise DeploymentUnreadable(f"{path}: duplex_session.{key} is unknown; there are {allowed}")
        setting, kinds = SESSION[key]
        _check(path, f"duplex_session.{key}", value, kinds)
        found[setting] = float(value) if kinds is NUMBER else value
    return found


def _options(path: Path, table: Mapping[str, Any]) -> list[str]:
    """The model's own options, as texts: the model refuses what it does not know."""
    pairs = []
    for key, value in table.items():
        if not isinstance(value, str | int | float):
            raise DeploymentUnreadable(f"{path}: options.{key} is no text, number or truth value")
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        pairs.append(f"{key}={text}")
    return pairs


def _table(path: Path, held: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = held.get(name, {})
    if not isinstance(table, dict):
        raise DeploymentUnreadable(f"{path}: {name} is no table")
    return table


def _check(path: Path, key: str, value: object, kinds: tuple[type, ...]) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise DeploymentUnreadable(f"{path}: {key} is {value!r}; it is {_NAMES[kinds]}")
