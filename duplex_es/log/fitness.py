"""Whether a store can keep the promises: its version, and that it never throws sessions away to make room."""

from __future__ import annotations

from redis.exceptions import ResponseError

from .connections import Exchange
from .errors import ConfigurationError
from .scripts import refused

LOWEST_VERSION = (7, 0)


async def check_store(exchange: Exchange) -> None:
    """Return when the store behind ``exchange`` is fit. Needs INFO only: CONFIG is often forbidden.

    Raises: ConfigurationError that says which setting to change, LogUnavailable.
    """
    (info,) = await exchange([("INFO",)])
    if isinstance(info, ResponseError):
        raise refused(info)
    text = info if isinstance(info, bytes) else bytes(info)
    fields = dict(line.split(":", 1) for line in text.decode(errors="replace").splitlines() if ":" in line)
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
