"""What a store's URL says: one server, the sentinels of a service, or nodes of a cluster.

    redis://[user:password@]host[:port][/db]                           one server; rediss:// with TLS, unix:// by path
    redis+sentinel://[user:password@]host[:port],…/<service>[/db]      whichever server the sentinels call the primary
    redis+cluster://[user:password@]host[:port],…                      the nodes of a cluster, any of which will do

``rediss+sentinel`` and ``rediss+cluster`` speak TLS. User and password are those of the stores; sentinels that want
their own take ``?sentinel_username=…&sentinel_password=…``. ``password_file`` and ``sentinel_password_file`` name
files to read these passwords from, so that they are in no environment. Other query arguments are redis-py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

SENTINEL_PORT, STORE_PORT = 26_379, 6_379
_OF_SENTINELS = "sentinel_"
_PASSWORD_FILES = {"password_file": "password", "sentinel_password_file": "sentinel_password"}

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store is. ``url`` is that of one server: how to speak to each, whatever its address.

    ``addresses`` are those of the sentinels or of cluster nodes, none for a single server; ``sentinel_url`` is how to
    speak to a sentinel.
    """

    kind: Literal["server", "sentinel", "cluster"]
    url: str
    addresses: tuple[Address, ...] = ()
    service: str = ""
    sentinel_url: str = ""


def parse_store_url(url: str) -> Target:
    """What ``url`` says. Raises: ValueError that says what is wrong, without repeating a password."""
    url = _with_passwords_read(url)
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    if not kind:
        return Target("server", url)
    if scheme not in ("redis", "rediss") or kind not in ("sentinel", "cluster"):
        raise ValueError(
            f"unknown scheme {parts.scheme}: use redis, rediss, unix, redis+sentinel, rediss+sentinel,"
            " redis+cluster or rediss+cluster"
        )
    credentials, _, hosts = parts.netloc.rpartition("@")
    default_port = SENTINEL_PORT if kind == "sentinel" else STORE_PORT
    addresses = tuple(_address(text, default_port) for text in hosts.split(",") if text)
    if not addresses:
        raise ValueError(f"{parts.scheme}: no host is named")
    path = [unquote(part) for part in parts.path.split("/") if part]
    query = parse_qsl(parts.query, keep_blank_values=True)
    stores = [(name, value) for name, value in query if not name.startswith(_OF_SENTINELS)]
    if kind == "cluster":
        if path not in ([], ["0"]):
            raise ValueError("a cluster has no database but 0")
        return Target("cluster", _url(scheme, credentials, "0", stores), addresses)
    if not path or len(path) > 2 or (len(path) == 2 and not path[1].isdigit()):
        raise ValueError(f"{parts.scheme}: after the hosts comes /<service> or /<service>/<db>")
    sentinels = [
        (name.removeprefix(_OF_SENTINELS), value)
        for name, value in query
        if name.startswith((_OF_SENTINELS, "ssl_"))
    ]
    return Target(
        "sentinel",
        _url(scheme, credentials, path[1] if len(path) == 2 else "0", stores),
        addresses,
        service=path[0],
        sentinel_url=_url(scheme, "", "0", sentinels),
    )


def _with_passwords_read(url: str) -> str:
    """``url`` with the passwords themselves in the place of the files that hold them."""
    where, _, query = url.partition("?")
    arguments = dict(parse_qsl(query, keep_blank_values=True))
    if not _PASSWORD_FILES.keys() & arguments.keys():
        return url
    for name in _PASSWORD_FILES.keys() & arguments.keys():
        arguments[_PASSWORD_FILES[name]] = _held(arguments.pop(name))
    return f"{where}?{urlencode(arguments)}"


def _held(path: str) -> str:
    """The password in a file; the line's end is none of it."""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the password cannot be read: {error}") from error


def _address(text: str, default_port: int) -> Address:
    host, bracket, rest = text.rpartition("]")
    if bracket:  # an IPv6 address
        host, port = host.removeprefix("["), rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not host or not (port or str(default_port)).isdigit():
        raise ValueError(f"not a host with a port: {text}")
    return unquote(host), int(port or default_port)


def _url(scheme: str, credentials: str, db: str, query: list[tuple[str, str]]) -> str:
    at = f"{credentials}@" if credentials else ""
    return f"{scheme}://{at}localhost/{db}" + (f"?{urlencode(query)}" if query else "")
