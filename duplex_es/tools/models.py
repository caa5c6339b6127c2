"""``duplex-es models``: the models installed here, or those that a running service offers."""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points
from urllib.parse import urlsplit

import msgspec

from .console import Console
from .errors import ToolError
from .probe import http_get

GROUP = "duplex_es.models"


def installed() -> list[tuple[str, str]]:
    """Name and place of every model plug-in that this Python can load, by name."""
    return sorted((point.name, point.value) for point in entry_points(group=GROUP))


async def offered(url: str) -> list[tuple[str, str]]:
    """Id and description of every model that the gateway at ``url`` offers. Raises: ToolError when it cannot say."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    host, port = parts.hostname or "127.0.0.1", parts.port or 8099
    try:
        status, body = await http_get(host, port, "/v1/models")
        listing = msgspec.json.decode(body)
        if status != 200 or not isinstance(listing, dict):
            raise ToolError(f"{url} answers {status}: {body.strip()[:200]}")
        return [(str(each.get("id")), str(each.get("owned_by", ""))) for each in listing.get("data", [])]
    except (OSError, msgspec.DecodeError) as error:
        raise ToolError(f"{url} does not list its models: {error}") from error


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es models``."""
    rows = await offered(args.url) if args.url else installed()
    Console().table(rows or [("no models",)])
    return 0
