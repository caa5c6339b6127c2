"""Whether a store can keep the promises: its version, and that it never throws sessions away to make room."""

from __future__ import annotations

import logging

from redis.exceptions import ResponseError

from .connections import Exchange
from .durability import NOTHING_SURVIVES, fields_of, witnesses
from .errors import ConfigurationError
from .scripts import refused
from .settings import LogSettings

LOWEST_VERSION = (7, 0)


_log = logging.getLogger(__name__)


async def check_store(exchange: Exchange, settings: LogSettings | None = None) -> None:
    """Return when the store behind ``exchange`` is fit. Needs INFO only: CONFIG is often forbidden.

    That nothing would survive the store is a warning, unless the durability of ``settings`` is ``strict``.

    Raises: ConfigurationError that says which setting to change, LogUnavailable.
    """
    (info,) = await exchange([("INFO",)])
    if isinstance(info, ResponseError):
        raise refused(info)
    fields = fields_of(info)
    # Valkey answers with the version of Redis that it is compatible to.
    version = fields.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < LOWEST_VERSION:
        raise ConfigurationError(f"Redis {version} is too old: 7.0 or later is needed, or Valkey")
    policy = fields.get("maxmemory_policy", "noeviction")
    if fields.get("maxmemory", "0") != "0" and policy != "noeviction":
        raise ConfigurationError(
            f"maxmemory-policy is {policy}: the store would drop sessions that are going on."
            " Set maxmemory-policy to noeviction"
        )
    settings = settings or LogSettings()
    if settings.durability != "memory" and witnesses(fields, settings) is None:
        if settings.durability == "strict":
            raise ConfigurationError(f"the durability is strict, but {NOTHING_SURVIVES}")
        _log.warning("nothing that is written can be vouched for: %s", NOTHING_SURVIVES)
