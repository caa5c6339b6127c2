"""Asking a gateway for recorded calls over HTTP, for the tests beside this file."""

from __future__ import annotations

import asyncio
import gzip
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from tests.gateway.stage import Gateway

TOKEN = "a-token-of-some-length"


@dataclass
class Answer:
    """What came back; ``body`` is unpacked."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return str(self.json["error"]["code"])


async def ask(
    gateway: Gateway,
    path: str,
    *,
    token: str | None = TOKEN,
    method: str = "GET",
    body: bytes | None = None,
    **headers: str,
) -> Answer:
    """One request, with the operator token unless ``token`` is another or ``None``."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"

    def fetch() -> Answer:
        request = urllib.request.Request(
            f"http://127.0.0.1:{gateway.port}{path}", data=body, headers=sent, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return _answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.headers, error.read())

    return await asyncio.to_thread(fetch)


def _answer(status: int, headers: Any, body: bytes) -> Answer:
    if headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)
