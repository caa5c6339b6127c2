"""The settings of a worker: one table that flags, ``DUPLEX_ES_*`` variables and the documentation come from."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast, get_args

from duplex_es.log.settings import Durability, LogSettings

from .deployments import DeploymentUnreadable, read_deployment
from .retention import MIB, Limits

PROGRAM = "duplex-es-worker"
CHECK = "--check"


def _option(default: object, text: str, *choices: str) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices or None})


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker runs. Flag ``--redis-url`` and variable ``DUPLEX_ES_REDIS_URL`` name the same setting."""

    redis_url: str = _option("redis://127.0.0.1:6379/0", "where the session log lives")
    name: str = _option("", "this worker's name, unique in the fleet; the host and process by default")
    deployment: str = _option("", "a deployment file (TOML): the model, its options and its sessions' limits")
    model: str = _option("cascade", "the model to serve")
    model_option: tuple[str, ...] = _option(
        (), "an option of the model, KEY=VALUE; the flag may be repeated, the variable holds them with commas between"
    )
    slots: int = _option(8, "how many sessions this worker takes at a time")
    chat_url: str = _option("", "an OpenAI-compatible chat server: behind chat, or writing cascade's answers")
    health_host: str = _option("127.0.0.1", "where operators reach /metrics, /healthz, /readyz and /startupz")
    health_port: int = _option(0, "their port; 0 turns it, and all measuring, off")
    otlp_endpoint: str = _option("", "an OpenTelemetry collector's base URL; spans go there over OTLP/HTTP")
    drain_s: float = _option(
        20.0, "how long a stopping worker waits for turns to end before it hands over all the same"
    )
    audio_retention_s: float = _option(600.0, "how long a session's sound is kept, both ways; 0 sets no limit")
    audio_retention_bytes: int = _option(8 * MIB, "how much of a session's sound is kept, both ways; 0 sets no limit")
    history_retention_s: float = _option(0.0, "how long a session's records are kept, both ways; 0 sets no limit")
    history_retention_bytes: int = _option(8 * MIB, "how much of its records is kept, both ways; 0 sets no limit")
    durability: str = _option(
        "standard",
        "what counts as kept: the store's memory, its disk and replicas; strict: calls and ends wait to be kept",
        *get_args(Durability),
    )
    replicas: int = _option(0, "how many replicas of the store must have what counts as kept")
    idle_ttl_s: float = _option(300.0, "how long a session may be idle, whatever its client set; 0 sets no limit")
    disconnect_grace_s: float = _option(30.0, "how long a session waits for a client that lost its connection")
    max_session_s: float = _option(0.0, "how long a session may last, its end announced 30 s before; 0 sets no limit")
    log_level: str = _option("info", "the least severe log lines to write", "debug", "info", "warning", "error")
    log_format: str = _option("text", "how log lines look", "text", "json")

    @property
    def options(self) -> dict[str, str]:
        """What the model is given; of two values for one key the later counts. Raises: ValueError for no KEY=VALUE."""
        options: dict[str, str] = {"chat_url": self.chat_url} if self.chat_url else {}
        for pair in self.model_option:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise ValueError(f"--model-option takes KEY=VALUE, not {pair!r}")
            options[key] = value
        return options

    @property
    def log(self) -> LogSettings:
        """How the log is used."""
        return LogSettings(durability=cast(Durability, self.durability), replicas=self.replicas)

    @property
    def limits(self) -> Limits:
        """How much of a session is kept."""
        return Limits(
            audio_s=self.audio_retention_s,
            audio_bytes=self.audio_retention_bytes,
            history_s=self.history_retention_s,
            history_bytes=self.history_retention_bytes,
        )

    @property
    def worker(self) -> str:
        """The name this worker goes by."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"

    def complaint(self) -> str | None:
        """Why these settings cannot work, ``None`` when they can."""
        if self.slots < 1:
            return f"slots must be at least 1, not {self.slots}"
        if not 0 <= self.health_port <= 65_535:
            return f"health_port must be from 0 to 65535, not {self.health_port}"
        for name in ("audio_retention_bytes", "history_retention_bytes", "replicas"):
            if getattr(self, name) < 0:
                return f"{name} must be at least 0, not {getattr(self, name)}"
        lifetimes = ("drain_s", "idle_ttl_s", "disconnect_grace_s", "max_session_s")
        for name in (*lifetimes, "audio_retention_s", "history_retention_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                return f"{name} must be a number of seconds, not {getattr(self, name)}"
        return None


def variable(name: str) -> str:
    """The environment variable of the setting ``name``."""
    return f"DUPLEX_ES_{name.upper()}"


def flag(name: str) -> str:
    """The command-line flag of the setting ``name``."""
    return f"--{name.replace('_', '-')}"


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line, with defaults from ``environment``; texts there are read as the flags are."""
    made = argparse.ArgumentParser(
        prog=PROGRAM, description="Serves one model: claims sessions from the log, decides, and speaks."
    )
    made.add_argument(CHECK, action="store_true", help="load the model, let it answer once, say what came of it, end")
    for option in fields(WorkerSettings):
        text = f"{option.metadata['help']} (${variable(option.name)}; default {option.default!r})"
        given = environment.get(variable(option.name))
        if isinstance(option.default, tuple):
            pairs = [pair for pair in (given or "").split(",") if pair]
            made.add_argument(flag(option.name), action="append", default=pairs, metavar="KEY=VALUE", help=text)
            continue
        made.add_argument(
            flag(option.name),
            type=type(option.default),
            default=option.default if given is None else given,
            choices=option.metadata["choices"],
            help=text,
        )
    return made


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> WorkerSettings:
    """Settings from flags over variables over the deployment file over defaults. Exits with a usage line for what

    cannot be. Of two values for one option of the model the nearer counts.
    """
    path = vars(parser(environment).parse_args(arguments))["deployment"]
    held: dict[str, object] = {}
    try:
        held = read_deployment(Path(path)) if path else {}
    except DeploymentUnreadable as error:
        parser(environment).error(str(error))
    options = cast(list[str], held.pop("model_option", []))
    command_line = parser({**{variable(name): str(value) for name, value in held.items()}, **environment})
    values = vars(command_line.parse_args(arguments))
    values.pop("check")
    settings = WorkerSettings(**{**values, "model_option": (*options, *values["model_option"])})
    for option in fields(settings):
        allowed, value = option.metadata["choices"], getattr(settings, option.name)
        if allowed and value not in allowed:
            command_line.error(f"{variable(option.name)}: {value!r} is none of {', '.join(allowed)}")
    if complaint := settings.complaint():
        command_line.error(complaint)
    return settings


def settings_table() -> str:
    """Every setting as a Markdown table, for the reference."""
    rows = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
    for option in fields(WorkerSettings):
        name, default = option.name, "" if option.default in ("", ()) else f"`{option.default}`"
        rows.append(f"| `{flag(name)}` | `{variable(name)}` | {default} | {option.metadata['help']} |")
    return "\n".join(rows) + "\n"
