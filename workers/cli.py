"""``duplex-es-worker``: one worker process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence

import uvloop

from duplex_es.log.errors import LogError
from duplex_es.log.opening import open_log
from duplex_es.model import Model

from .checking import check
from .health import Health
from .host import Host
from .plugins import ContractBroken, ModelUnknown, make_model
from .settings import CHECK, WorkerSettings, read_settings

_log = logging.getLogger("duplex_es.worker")


class JsonLines(logging.Formatter):
    """One object per line: ``time`` (UTC), ``level``, ``logger``, ``message``, and ``error`` if there was one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of ``record``, without its end."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class LoadFailed(Exception):
    """The model could not be loaded; the message says what is missing."""


def set_up_logging(log_format: str, log_level: str) -> None:
    """Send log lines from ``log_level`` up to stderr, readable or as JSON."""
    lines = logging.StreamHandler(sys.stderr)
    readable = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    lines.setFormatter(JsonLines() if log_format == "json" else readable)
    logging.basicConfig(level=log_level.upper(), handlers=[lines], force=True)


async def serve(settings: WorkerSettings) -> None:
    """Load the model, then serve sessions until SIGTERM or SIGINT; a log that is away is waited for.

    Raises: ModelUnknown, ContractBroken, LoadFailed, ConfigurationError for a log that is not fit, OSError when the
    health port is taken, ValueError for settings that the log or the model refuses.
    """
    model = make_model(settings.model, settings.options)
    log = open_log(settings.redis_url, settings.log)
    host = Host(
        log,
        model,
        worker=settings.worker,
        slots=settings.slots,
        drain_s=settings.drain_s,
        limits=settings.limits,
        idle_ttl_s=settings.idle_ttl_s or None,
        disconnect_grace_s=settings.disconnect_grace_s,
        max_session_s=settings.max_session_s or None,
    )
    health = Health(host)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, host.stop)
    try:
        if settings.health_port:
            await health.start(settings.health_host, settings.health_port)
        host.reason = f"loading {settings.model}"
        await _load(model, settings.model)
        host.reason = "connecting to the log"
        await host.run()
    finally:
        await health.stop()
        await model.unload()
        await log.close_connections()
    _log.info("stopped")


async def _load(model: Model, name: str) -> None:
    try:
        await model.load()
    except Exception as error:
        raise LoadFailed(f"model {name}: {error}") from error
    _log.info("model %s loaded", name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker. The exit status is 0 after a clean stop, 1 when it could not start, 2 for impossible settings."""
    arguments = sys.argv[1:] if arguments is None else arguments
    settings = read_settings(arguments, os.environ)
    set_up_logging(settings.log_format, settings.log_level)
    try:
        if CHECK in arguments:
            found = uvloop.run(check(settings.model, settings.options, slots=settings.slots))
            print(found.as_json() if settings.log_format == "json" else found.as_table())
            return 0 if found.passed else 1
        uvloop.run(serve(settings))
    except (LogError, ModelUnknown, ContractBroken, LoadFailed, ValueError, OSError, ImportError) as error:
        _log.error("cannot start: %s", error)
        _log.debug("cannot start, because of:", exc_info=error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
