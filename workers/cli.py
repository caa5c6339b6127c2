"""``duplex-es-worker``: one worker process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import uvloop

from duplex_es.log.errors import LogError
from duplex_es.log.observing import UNOBSERVED
from duplex_es.log.opening import open_log
from duplex_es.model import Model
from duplex_es.observability import lines
from duplex_es.observability.lag import watch_loop
from duplex_es.observability.log_figures import LogFigures
from duplex_es.observability.outlets import collector, open_outlets

from .checking import check
from .health import Health
from .host import LOG, MODEL, Host
from .plugins import ContractBroken, ModelUnknown, make_model
from .reporting import Reporter
from .settings import CHECK, WorkerSettings, read_settings

_log = logging.getLogger("duplex_es.worker")


class LoadFailed(Exception):
    """The model could not be loaded; the message says what is missing."""


async def serve(settings: WorkerSettings) -> None:
    """Load the model, then serve sessions until SIGTERM or SIGINT; a log that is away is waited for.

    Raises: ModelUnknown, ContractBroken, LoadFailed, ConfigurationError for a log that is not fit, OSError when the
    health port is taken, ValueError for settings that the log or the model refuses, or that need an extra.
    """
    model = make_model(settings.model, settings.options)
    measured = bool(settings.health_port)
    endpoint = collector(settings.otlp_endpoint, os.environ)
    outlets = open_outlets("worker", settings.worker, measured=measured, otlp_endpoint=endpoint)
    observer = LogFigures(outlets.metrics) if measured else UNOBSERVED
    log = open_log(settings.redis_url, replace(settings.log, observer=observer))
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
        outlets=outlets,
    )
    reporter, health = Reporter(host, model, outlets.metrics), Health(host, outlets.metrics)
    lag: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, host.stop)
    try:
        if measured:
            await health.start(settings.health_host, settings.health_port)
            lag = asyncio.create_task(watch_loop(outlets.metrics))
        host.readiness.fails(MODEL, f"loading {settings.model}")
        began_s = time.monotonic()
        await _load(model, settings.model)
        reporter.loaded(time.monotonic() - began_s)
        host.readiness.passes(MODEL)
        host.readiness.fails(LOG, "connecting to the log")
        await host.run()
    finally:
        if lag is not None:
            lag.cancel()
        await health.stop()
        await model.unload()
        await log.close_connections()
        await asyncio.to_thread(outlets.tracer.close)
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
    lines.configure(settings.log_format, settings.log_level, worker=settings.worker)
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
