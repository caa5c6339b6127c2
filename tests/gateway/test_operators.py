"""Nothing of a recorded call is shown to whoever does not know the operator token."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duplex_es.log.memory import MemoryLog
from gateway import operators
from gateway.operators import COOKIE, Operators, read_token
from tests.gateway.reading import TOKEN, ask
from tests.gateway.stage import Gateway, running
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.e2e

PATHS = (
    "/v1/sessions",
    "/v1/sessions/call-1/timeline",
    "/v1/sessions/call-1/peaks",
    "/v1/sessions/call-1/audio",
    "/v1/sessions/call-1/record?seq=1",
    "/v1/sessions/call-1/records",
    "/v1/sessions/call-1/events",
    "/v1/sessions/call-1/export",
    "/v1/sessions/call-1/divergence?with=call-1",
)


@pytest.fixture(autouse=True)
def short_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operators.__init__, "__kwdefaults__", {**Operators.__init__.__kwdefaults__, "penalty_s": 0.01})


@pytest.fixture
async def closed(log: MemoryLog) -> AsyncIterator[Gateway]:
    await record_call(log)
    async with running(log) as gateway:
        yield gateway


@pytest.fixture
async def guarded(log: MemoryLog) -> AsyncIterator[Gateway]:
    await record_call(log)
    async with running(log, operator_token=TOKEN) as gateway:
        yield gateway


async def test_without_a_token_configured_every_route_is_closed_to_everybody(closed: Gateway) -> None:
    for path in PATHS:
        for token in (None, TOKEN, ""):
            answer = await ask(closed, path, token=token)
            assert (answer.status, answer.code) == (403, "reading_is_off"), path
            assert "Sunny" not in answer.body.decode()
    assert (await ask(closed, "/v1/operator/session", token=None)).json == {"enabled": False, "signed_in": False}
    refused = await ask(closed, "/v1/operator/session", token=None, method="POST", body=b'{"token": ""}')
    assert refused.status == 403


async def test_with_one_every_route_wants_it(guarded: Gateway) -> None:
    for path in PATHS:
        assert (await ask(guarded, path, token=None)).code == "operator_token_required", path
        refused = await ask(guarded, path, token=f"{TOKEN}x")
        assert (refused.status, refused.code) == (401, "operator_token_refused"), path
        assert (await ask(guarded, path)).status == 200, path


async def test_the_token_is_traded_for_a_cookie_that_no_script_reads(guarded: Gateway) -> None:
    body = json.dumps({"token": TOKEN}).encode()
    signed_in = await ask(guarded, "/v1/operator/session", token=None, method="POST", body=body)
    cookie = signed_in.headers["set-cookie"]
    assert signed_in.status == 204
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and TOKEN not in cookie
    pair = cookie.split(";")[0]
    assert (await ask(guarded, "/v1/sessions", token=None, Cookie=pair)).status == 200
    assert (await ask(guarded, "/v1/operator/session", token=None, Cookie=pair)).json["signed_in"] is True
    assert (await ask(guarded, "/v1/sessions", token=None, Cookie=pair[:-1] + "0")).status in (401, 200)
    secure = await ask(guarded, "/v1/operator/session", token=None, method="POST", body=body, X_Forwarded_Proto="https")
    assert "Secure" in secure.headers["set-cookie"]
    gone = await ask(guarded, "/v1/operator/session", token=None, method="DELETE")
    assert f'{COOKIE}=""' in gone.headers["set-cookie"]


async def test_a_cookie_is_good_on_every_gateway_of_that_token_until_it_is_old() -> None:
    now = [1_000_000.0]
    one, two = Operators(TOKEN, now_s=lambda: now[0]), Operators(TOKEN, now_s=lambda: now[0])
    other = Operators(TOKEN + "x", now_s=lambda: now[0])
    until = str(int(now[0]) + 60)
    cookie = f"{until}.{one._signature(until)}"
    assert two._is_signed_in(cookie) and not other._is_signed_in(cookie)
    assert not one._is_signed_in(f"{int(until) + 1}.{one._signature(until)}")
    now[0] += 61
    assert not two._is_signed_in(cookie)
    assert not two._is_signed_in("") and not two._is_signed_in(f"x.{two._signature('x')}")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"other": 1}'])
async def test_a_body_that_is_no_sign_in_is_named(guarded: Gateway, body: bytes) -> None:
    answer = await ask(guarded, "/v1/operator/session", token=None, method="POST", body=body)
    assert (answer.status, answer.code) == (400, "invalid_body")
    huge = await ask(guarded, "/v1/operator/session", token=None, method="POST", body=b"x" * 10_000)
    assert huge.status == 413


async def test_who_tries_many_tokens_is_turned_away_unread(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "PENALIZED_AT_ONCE", 2)
    defaults = {**Operators.__init__.__kwdefaults__, "penalty_s": 0.3}
    monkeypatch.setattr(Operators.__init__, "__kwdefaults__", defaults)
    async with running(log, operator_token=TOKEN) as gateway:
        answers = await asyncio.gather(*(ask(gateway, "/v1/sessions", token=f"wrong-{at}") for at in range(6)))
    assert {answer.status for answer in answers} == {401, 429}


async def test_no_token_is_in_a_log_line(guarded: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await ask(guarded, "/v1/sessions")
        await ask(guarded, "/v1/sessions", token="a-wrong-token-of-some-length")
    assert TOKEN not in caplog.text and "a-wrong-token" not in caplog.text


def test_a_token_that_is_short_or_not_there_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"  {TOKEN}\n")
    assert read_token(str(path)) == TOKEN
    path.write_text("short")
    with pytest.raises(ValueError, match="at least 16 characters"):
        read_token(str(path))
    with pytest.raises(ValueError, match="cannot read"):
        read_token(str(tmp_path / "nothing"))
