"""The program ``duplex-es-gateway``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import cast

from duplex_es.log.errors import ConfigurationError
from duplex_es.log.observing import UNOBSERVED
from duplex_es.log.opening import open_log
from duplex_es.log.settings import Durability, LogSettings
from duplex_es.observability import lines
from duplex_es.observability.log_figures import LogFigures
from duplex_es.observability.outlets import OutletMissing, collector, open_outlets
from duplex_es.reading.errors import ReadingError

from .archived import open_archive
from .server import GatewayServer
from .service import Service
from .settings import PROGRAM, read_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one gateway until SIGTERM or SIGINT; returns 0 after a drained stop.

    Exits with 2 for settings that cannot be, with 3 when the port is taken.
    """
    settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    lines.configure(settings.log_format, settings.log_level, gateway=settings.gateway)
    try:
        outlets = open_outlets(
            "gateway",
            settings.gateway,
            measured=bool(settings.metrics_port),
            otlp_endpoint=collector(settings.otlp_endpoint, os.environ),
        )
    except OutletMissing as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    try:
        log = open_log(
            settings.redis_url,
            LogSettings(
                durability=cast(Durability, settings.durability),
                replicas=settings.replicas,
                observer=LogFigures(outlets.metrics) if settings.metrics_port else UNOBSERVED,
            ),
        )
    except (ValueError, ConfigurationError) as error:
        print(f"{PROGRAM}: --redis-url: {error}", file=sys.stderr)
        return 2
    try:
        archive = open_archive(settings, log) if settings.reads_archive else None
    except ReadingError as error:
        print(f"{PROGRAM}: --archive: {error}", file=sys.stderr)
        return 2
    GatewayServer(Service(settings, log, outlets, archive=archive)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
