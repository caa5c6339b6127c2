"""A model checked before it serves: what is fit, what is not, and why."""

from __future__ import annotations

import json

import pytest

from workers import checking
from workers.checking import check
from workers.cli import main

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("echo", {}),
        ("scripted", {}),
        ("scripted", {"profile": "personaplex"}),
        ("scripted", {"profile": "minicpmo_4_5"}),
    ],
)
async def test_a_model_that_answers_is_fit(model: str, options: dict[str, str]) -> None:
    found = await check(model, options, slots=3)
    assert found.passed and found.decision in {"speak", "listen"}
    assert found.sessions == 3


async def test_a_model_that_is_still_answering_when_time_is_up_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "PATIENCE_S", 0.3)
    script = json.dumps([{"on": "generate", "do": [{"audio_ms": 80, "endless": True}]}])
    found = await check("scripted", {"script": script}, slots=1)
    assert found.passed and found.audio_ms > 0


async def test_a_model_that_says_nothing_in_time_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "PATIENCE_S", 0.3)
    found = await check("scripted", {"script": "[]"}, slots=1)
    assert not found.passed


async def test_there_are_no_more_sessions_than_the_model_has_room_for() -> None:
    found = await check("openbmb/MiniCPM-o-4_5", {"fake": "yes", "objects": "1"}, slots=8)
    assert (found.sessions, found.decision, found.fault) == (1, "speak", None)
    assert found.audio_ms >= 1000 and found.answer_ms is not None


async def test_a_model_that_cannot_be_loaded_is_not_and_says_why() -> None:
    found = await check("chat", {}, slots=8)
    assert not found.passed and "chat_url" in (found.fault or "")


async def test_a_model_that_fails_is_not() -> None:
    script = '[{"on": "generate", "do": [{"fail": {"code": "response_error", "message": "told to"}}]}]'
    found = await check("scripted", {"script": script}, slots=8)
    assert not found.passed and "response_error" in (found.fault or "")


def test_the_program_says_it_as_a_table_or_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--model", "echo"]) == 0
    assert "result              fit" in capsys.readouterr().out
    assert main(["--check", "--model", "chat", "--log-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False
