"""``duplex-es-worker``: one worker process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop

from duplex_es.log.errors import LogError
from duplex_es.log.opening import open_log

from .health import Health
from .host import Host
from .plugins import ContractBroken, ModelUnknown, make_model
from .settings import WorkerSettings, read_settings

_log = logging.getLogger("duplex_es.worker")


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """``record`` as a line, with its traceback if it has one."""
        line = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(log_format: str) -> None:
    """Send log lines to stderr, readable or as JSON."""
    lines = logging.StreamHandler(sys.stderr)
    readable = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s")
    lines.setFormatter(JsonLines() if log_format == "json" else readable)
    logging.basicConfig(level=logging.INFO, handlers=[lines], force=True)


async def serve(settings: WorkerSettings) -> None:
    """Load the model, then serve sessions until SIGTERM or SIGINT. Raises: LogError, ModelUnknown, ContractBroken."""
    model = make_model(settings.model, settings.options)
    log = open_log(settings.redis_url)
    host = Host(log, model, worker=settings.worker, slots=settings.slots, drain_s=settings.drain_s)
    health = Health(host)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, host.stop)
    if settings.health_port:
        await health.start(settings.health_host, settings.health_port)
    try:
        host.reason = f"loading {settings.model}"
        await model.load()
        _log.info("model %s loaded", settings.model)
        await log.connect()
        await host.run()
    finally:
        await health.stop()
        await model.unload()
        await log.close_connections()
    _log.info("stopped")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker; the exit status is 0 after a clean stop, 1 when it could not start."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    set_up_logging(settings.log_format)
    try:
        uvloop.run(serve(settings))
    except (LogError, ModelUnknown, ContractBroken, ValueError, OSError, ImportError) as error:
        _log.error("cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
