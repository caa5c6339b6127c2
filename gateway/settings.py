"""The settings of a gateway: one table that flags, ``DUPLEX_ES_*`` variables and the documentation come from."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from duplex_es.log.settings import Durability
from duplex_es.protocol import MAX_EVENT_BYTES

from .operators import SHORTEST, read_token
from .pages import listed

PROGRAM = "duplex-es-gateway"


def _option(default: object, text: str, *choices: str) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices or None})


def _secret(text: str) -> Any:
    """An option that only the environment may give: a command line is to be read by everybody on the machine."""
    return field(default="", repr=False, metadata={"help": text, "choices": None, "secret": True})


@dataclass(frozen=True, slots=True)
class Settings:
    """How one gateway runs. Flag ``--redis-url`` and variable ``DUPLEX_ES_REDIS_URL`` name the same setting."""

    host: str = _option("127.0.0.1", "the address to listen on")
    port: int = _option(8099, "the port to listen on; 0 takes any that is free")
    redis_url: str = _option("redis://127.0.0.1:6379/0", "where the session log lives")
    name: str = _option("", "this gateway's name, unique in the fleet; the host and port by default")
    default_model: str = _option("cascade", "the model of a session that names none")
    config_timeout_s: float = _option(10.0, "how long a socket may take to say what it wants")
    opening_timeout_s: float = _option(30.0, "how long a worker may take to open a session")
    max_event_bytes: int = _option(MAX_EVENT_BYTES, "the largest client event, in bytes of UTF-8")
    ping_interval_s: float = _option(10.0, "how long after the last pong the next ping goes out")
    ping_timeout_s: float = _option(18.0, "how long after a ping a peer that says nothing at all counts as gone")
    renew_interval_s: float = _option(2.0, "how often the leases of all sockets are renewed")
    log_patience_s: float = _option(10.0, "how long the log may fail to answer before clients are told")
    drain_s: float = _option(10.0, "how long a stopping gateway lets answers go on; clients move elsewhere meanwhile")
    stall_s: float = _option(30.0, "how long a client may take nothing before it is closed; it can resume")
    admit_at_once: int = _option(16, "how many sessions are opened and taken up at the same time")
    admit_waiting: int = _option(2000, "how many more wait for that, in order; others are told to come again")
    admit_patience_s: float = _option(10.0, "how long one of them waits before it is told to come again")
    unclaimed_s: float = _option(120.0, "how long a session that no worker takes and nobody holds is kept")
    durability: str = _option(
        "standard",
        "what counts as kept: the store's memory, its disk and replicas; strict: calls and ends wait to be kept",
        *get_args(Durability),
    )
    replicas: int = _option(0, "how many replicas of the store must have what counts as kept")
    pages: str = _option("off", "whether web pages are served: / to talk to it, /sessions for calls", "on", "off")
    page_gateways: str = _option("", "further ws:// addresses where a page may resume its session, separated by commas")
    operator_token_file: str = _option("", "a file with the token that opens recorded calls; without one none is")
    operator_token: str = _secret("that token itself, for where there are no files; at least 16 characters")
    archive: str = _option("", "an archive whose calls the same token opens: a folder, s3://…, gs://…")
    archive_keys: str = _option("", "where its sessions' keys are: a folder or bucket, or `redis`")
    archive_key_file: str = _option("", "a file with the operator's key of that archive")
    archive_key: str = _secret("that key itself, for where there are no files")
    metrics_host: str = _option("127.0.0.1", "where operators reach /metrics, /healthz, /readyz and /startupz")
    metrics_port: int = _option(0, "their port, which is never that of clients; 0 turns it, and all measuring, off")
    otlp_endpoint: str = _option("", "an OpenTelemetry collector's base URL; spans go there over OTLP/HTTP")
    log_format: str = _option("text", "how log lines look", "text", "json")
    log_level: str = _option("info", "the least important lines to write", "debug", "info", "warning", "error")

    @property
    def gateway(self) -> str:
        """The name this gateway goes by."""
        return self.name or f"{socket.gethostname()}-{self.port}"

    def operator_secret(self) -> str | None:
        """The operator token, ``None`` without one. Raises: ValueError for one that cannot be read, or is too short."""
        if self.operator_token_file:
            return read_token(self.operator_token_file)
        if self.operator_token and len(self.operator_token) < SHORTEST:
            raise ValueError(f"{variable('operator_token')} has fewer than {SHORTEST} characters")
        return self.operator_token or None

    @property
    def reads_archive(self) -> bool:
        """Whether an archive is to be opened: where nobody may read calls, nobody reads those in it."""
        return bool(self.archive and (self.operator_token_file or self.operator_token))

    def complaint(self) -> str | None:
        """Why these settings cannot work, ``None`` when they can."""
        for name in ("port", "metrics_port"):
            if not 0 <= getattr(self, name) <= 65_535:
                return f"{name} must be from 0 to 65535, not {getattr(self, name)}"
        if self.port and self.port == self.metrics_port:
            return f"metrics_port must be another one than port, not {self.metrics_port} too"
        if not 1 <= self.max_event_bytes <= MAX_EVENT_BYTES:
            return f"max_event_bytes must be from 1 to {MAX_EVENT_BYTES}, not {self.max_event_bytes}"
        for name, least in (("admit_at_once", 1), ("admit_waiting", 0), ("replicas", 0)):
            if getattr(self, name) < least:
                return f"{name} must be at least {least}, not {getattr(self, name)}"
        try:
            listed(self.page_gateways)
        except ValueError as error:
            return f"page_gateways: {error}"
        try:
            self.operator_secret()
        except ValueError as error:
            return f"operator_token_file: {error}"
        if self.reads_archive and not self.archive_keys:
            return "archive_keys must say where the keys of the archive's sessions are: a folder or bucket, or redis"
        if self.reads_archive and not (self.archive_key_file or self.archive_key):
            return f"archive_key_file must name the operator's key of the archive, or {variable('archive_key')} hold it"
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name.endswith("_s") and not 0 <= value < float("inf"):
                return f"{option.name} must be a number of seconds, not {value}"
        return None


def variable(name: str) -> str:
    """The environment variable of the setting ``name``."""
    return f"DUPLEX_ES_{name.upper()}"


def flag(name: str) -> str:
    """The command-line flag of the setting ``name``."""
    return f"--{name.replace('_', '-')}"


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line, with defaults from ``environment``; texts there are read as the flags are."""
    made = argparse.ArgumentParser(prog=PROGRAM, description="Holds client sockets and carries them to the log.")
    for option in fields(Settings):
        if "secret" in option.metadata:
            continue
        made.add_argument(
            flag(option.name),
            type=type(option.default),
            default=environment.get(variable(option.name), option.default),
            choices=option.metadata["choices"],
            help=f"{option.metadata['help']} (${variable(option.name)}; default {option.default!r})",
        )
    return made


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from flags over variables over defaults. Exits with a usage line for what cannot be."""
    command_line = parser(environment)
    secret = [option.name for option in fields(Settings) if "secret" in option.metadata]
    given = {name: environment.get(variable(name), "") for name in secret}
    settings = Settings(**{**vars(command_line.parse_args(arguments)), **given})
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
    for option in fields(Settings):
        name, default = option.name, "" if option.default == "" else f"`{option.default}`"
        as_flag = "only the variable" if "secret" in option.metadata else f"`{flag(name)}`"
        rows.append(f"| {as_flag} | `{variable(name)}` | {default} | {option.metadata['help']} |")
    return "\n".join(rows) + "\n"
