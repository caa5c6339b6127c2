"""Who may read recorded calls: whoever knows the operator token, by header or by a cookie that was got with it.

Recorded speech is personal data. Without a token nothing of it can be read; no token is ever in a URL or a log line.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

COOKIE = "duplex_es_operator"
SIGNED_IN_S = 12 * 3600
SHORTEST = 16
"""A token below this many characters can be guessed."""
PENALTY_S = 1.0
"""How long a wrong token waits for its answer."""
PENALIZED_AT_ONCE = 8
"""How many wait for that at most; the next one is turned away unread. So nobody tries many tokens in a second."""
LARGEST_BODY = 4_096


class Operators:
    """The operator token of one gateway. All gateways of one token know each other's cookies.

    ``now_s`` is Unix time, and ``penalty_s`` how long a wrong token waits.
    """

    def __init__(
        self, token: str | None, *, now_s: Callable[[], float] = time.time, penalty_s: float = PENALTY_S
    ) -> None:
        self._token = token.encode() if token else None
        self._key = hashlib.sha256(b"duplex_es operator cookie\0" + (self._token or b"")).digest()
        self._now_s, self._penalty_s = now_s, penalty_s
        self._penalized = 0

    async def refusal(self, request: Request) -> Response | None:
        """Why this request may not read, ``None`` when it may."""
        if self._token is None:
            return error(
                403,
                "reading_is_off",
                "Recorded calls cannot be read here: start the gateway with --operator-token-file.",
            )
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self._wrong(presented.strip())
        if self._is_signed_in(request.cookies.get(COOKIE, "")):
            return None
        return error(401, "operator_token_required", "Sign in with the operator token, or send it as a bearer token.")

    async def _wrong(self, presented: str) -> Response | None:
        """``None`` for the token, after the penalty a refusal for anything else."""
        if self._penalized >= PENALIZED_AT_ONCE:
            message = "Too many wrong operator tokens at the same time; try again in a moment."
            return error(429, "too_many_attempts", message, {"Retry-After": "2"})
        if self._token is not None and hmac.compare_digest(presented.encode("utf-8", "replace"), self._token):
            return None
        self._penalized += 1
        try:
            await asyncio.sleep(self._penalty_s)
        finally:
            self._penalized -= 1
        return error(401, "operator_token_refused", "This is not the operator token.")

    # -- the cookie ------------------------------------------------------------------------------------------------

    def _signature(self, until: str) -> str:
        return hmac.new(self._key, until.encode(), hashlib.sha256).hexdigest()

    def _is_signed_in(self, cookie: str) -> bool:
        until, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(until).encode()):
            return False
        return until.isdigit() and int(until) > self._now_s()

    async def status(self, request: Request) -> Response:
        """Whether calls can be read here at all, and by whoever asks."""
        signed_in = self._token is not None and self._is_signed_in(request.cookies.get(COOKIE, ""))
        return JSONResponse({"enabled": self._token is not None, "signed_in": signed_in}, headers=PRIVATE)

    async def sign_in(self, request: Request) -> Response:
        """The token in the body for a cookie that no script can read."""
        if self._token is None:
            return await self.refusal(request) or Response(status_code=403)
        try:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    return error(413, "body_too_large", f"The body has more than {LARGEST_BODY} bytes.")
            presented = str(_json(body)["token"])
        except (ValueError, KeyError, TypeError):
            return error(400, "invalid_body", 'Send a JSON object with "token".')
        if (refused := await self._wrong(presented)) is not None:
            return refused
        until = str(int(self._now_s()) + SIGNED_IN_S)
        answer = Response(status_code=204, headers=PRIVATE)
        forwarded = request.headers.get("x-forwarded-proto", request.url.scheme)
        answer.set_cookie(
            COOKIE,
            f"{until}.{self._signature(until)}",
            max_age=SIGNED_IN_S,
            httponly=True,
            samesite="strict",
            secure=forwarded == "https",
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Forget the cookie in this browser."""
        answer = Response(status_code=204, headers=PRIVATE)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal, as all of the gateway's HTTP answers say it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"type": kind, "code": code, "message": message, "param": None}}
    return JSONResponse(body, status, {**PRIVATE, **(headers or {})})


def _json(body: bytes) -> dict[str, object]:
    import json

    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def read_token(path: str) -> str:
    """The token in a file, without the space around it. Raises: ValueError when there is none that is good enough."""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"cannot read {path}: {fault}") from fault
    if len(token) < SHORTEST:
        raise ValueError(f"{path}: an operator token has at least {SHORTEST} characters, not {len(token)}")
    return token
