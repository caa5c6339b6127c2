"""The web pages: every file under ``gateway/web``, read once, and the headers that keep a page to itself.

Only files that were there at the start can be asked for, so no path leads anywhere else. Pages carry no secret and no
recorded word; what they show they ask the API for.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

WEB = Path(__file__).with_name("web")
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
"""What is served; a file of any other kind stays inside."""
COMPRESSED_FROM_BYTES = 1024
SOCKET_SCHEMES = ("ws", "wss")

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One file as it is sent; ``squeezed`` is the same in gzip, where that is smaller."""

    body: bytes
    squeezed: bytes | None
    media_type: str
    etag: str


class Pages:
    """The files under ``root`` and the routes that serve them.

    ``gateways`` are further WebSocket addresses of the same deployment: a page may resume a session there. The page's
    own address is always the first. Raises: ValueError for an address that is none.
    """

    def __init__(self, root: Path = WEB, *, gateways: Sequence[str] = (), default_model: str = "") -> None:
        self._files = {
            str(path.relative_to(root)): _page(path) for path in sorted(root.rglob("*")) if path.suffix in MEDIA_TYPES
        }
        self._config = {"gateways": list(gateways), "default_model": default_model}
        self._headers = page_headers(gateways)

    @property
    def routes(self) -> list[Route]:
        """The talk page at ``/`` and what every page loads, under ``/web``."""
        return [
            Route("/", self.document("talk/index.html")),
            Route("/favicon.ico", self.document("shell/icon.svg")),
            Route("/web/config.json", self.config),
            Route("/web/{path:path}", self.asset),
        ]

    def document(self, name: str) -> Endpoint:
        """An endpoint that answers with the file ``name``, whatever its path. Raises: KeyError when it is not there."""
        page = self._files[name]

        async def answer(request: Request) -> Response:
            return self._answer(request, page)

        return answer

    async def asset(self, request: Request) -> Response:
        """The file whose name stands behind ``/web/``, or 404."""
        page = self._files.get(request.path_params["path"])
        if page is None:
            return Response("There is no such file.\n", 404, self._headers, "text/plain; charset=utf-8")
        return self._answer(request, page)

    async def config(self, request: Request) -> Response:
        """What a page must know of its deployment; nothing of it is secret."""
        return JSONResponse(self._config, headers={**self._headers, "Cache-Control": "no-store"})

    def _answer(self, request: Request, page: Page) -> Response:
        # Every use asks whether the file is still the same: a fleet may serve two versions during a rollout, and
        # the modules of a page should come from one of them.
        headers = {**self._headers, "ETag": page.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if page.etag in _tags(request.headers.get("If-None-Match", "")):
            return Response(status_code=304, headers=headers)
        body = page.body
        if page.squeezed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = page.squeezed, "gzip"
        return Response(body, headers=headers, media_type=page.media_type)


def page_headers(gateways: Sequence[str] = ()) -> dict[str, str]:
    """The headers of every page: scripts and styles from here alone, connections to here and to ``gateways``.

    Raises: ValueError for an address that is no ``ws://`` or ``wss://`` URL.
    """
    connect = " ".join(["'self'", *dict.fromkeys(_origin(url) for url in gateways)])
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "media-src": "'self' blob:",
        "worker-src": "'self'",
        "connect-src": connect,
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def listed(addresses: str) -> list[str]:
    """The addresses of a setting that separates them with commas. Raises: ValueError for one that is none."""
    found = [address.strip() for address in addresses.split(",") if address.strip()]
    for address in found:
        _origin(address)
    return found


def _origin(url: str) -> str:
    parts = urlsplit(url)
    # A character that means something in a policy would end the directive, or begin another.
    if parts.scheme not in SOCKET_SCHEMES or not parts.netloc or set(parts.netloc) & set(" ;,'\"@"):
        raise ValueError(f"{url!r} is no address of a gateway; write ws://HOST:PORT or wss://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}"


def _page(path: Path) -> Page:
    body = path.read_bytes()
    squeezed = gzip.compress(body, mtime=0) if len(body) >= COMPRESSED_FROM_BYTES else body
    digest = hashlib.sha256(body).hexdigest()[:32]
    return Page(body, squeezed if len(squeezed) < len(body) else None, MEDIA_TYPES[path.suffix], f'"{digest}"')


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
