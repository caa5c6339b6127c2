"""The settings of a worker: one table that flags, ``DUPLEX_ES_*`` variables and the documentation come from."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


def _option(default: object, text: str, **more: object) -> Any:
    return field(default=default, metadata={"help": text, **more})


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker runs. Flag ``--redis-url`` and variable ``DUPLEX_ES_REDIS_URL`` name the same setting."""

    redis_url: str = _option("redis://127.0.0.1:6379/0", "where the session log lives")
    name: str = _option("", "this worker's name, unique in the fleet; the host and process by default")
    model: str = _option("cascade", "the model to serve")
    model_option: tuple[str, ...] = _option(
        (), "an option of the model, KEY=VALUE; may be given more than once", many=True
    )
    slots: int = _option(8, "how many sessions this worker takes at a time")
    chat_url: str = _option("", "an OpenAI-compatible chat server that writes cascade's answers")
    health_host: str = _option("127.0.0.1", "where /healthz and /readyz listen")
    health_port: int = _option(0, "their port; 0 turns them off")
    drain_s: float = _option(20.0, "how long a stopping worker waits for turns to end")
    log_format: str = _option("text", "how log lines look", choices=("text", "json"))

    @property
    def options(self) -> dict[str, str]:
        """What the model is given. Raises: ValueError for an option that is not KEY=VALUE."""
        options: dict[str, str] = {"chat_url": self.chat_url} if self.chat_url else {}
        for pair in self.model_option:
            key, equals, value = pair.partition("=")
            if not equals or not key:
                raise ValueError(f"--model-option takes KEY=VALUE, not {pair!r}")
            options[key] = value
        return options

    @property
    def worker(self) -> str:
        """The name this worker goes by."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line, with defaults from ``environment``."""
    made = argparse.ArgumentParser(
        prog="duplex-es-worker",
        description="Serves one model: claims sessions from the log, decides, and speaks.",
    )
    for setting in fields(WorkerSettings):
        variable = f"DUPLEX_ES_{setting.name.upper()}"
        default: Any = setting.default
        text = f"{setting.metadata['help']} (${variable})"
        flag = f"--{setting.name.replace('_', '-')}"
        if setting.metadata.get("many"):
            given = tuple(part for part in environment.get(variable, "").split(",") if part)
            made.add_argument(flag, action="append", default=list(given), metavar="KEY=VALUE", help=text)
            continue
        kind = type(default)
        value = kind(environment[variable]) if variable in environment else default
        made.add_argument(
            flag, type=kind, default=value, choices=setting.metadata.get("choices"), help=f"{text}; now {value!r}"
        )
    return made


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> WorkerSettings:
    """Settings from flags over variables over defaults. Exits with a usage line for what cannot be read."""
    values = vars(parser(environment).parse_args(arguments))
    values["model_option"] = tuple(values["model_option"])
    return WorkerSettings(**values)
