"""The demo: every step checked, anything missing a failure."""

from __future__ import annotations

import argparse
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import pytest

from duplex_es.client import write_pcm16_wav
from duplex_es.log.memory import MemoryLog
from duplex_es.tools import demo, show
from duplex_es.tools.children import Say
from duplex_es.tools.conversation import Answer, Conversation
from duplex_es.tools.stack import StackPlan
from duplex_es.tools.survival import Survival
from tests.support.recorded import record_session
from tests.support.voice_server import VoiceServer, voice_server

pytestmark = pytest.mark.unit


class StandInStack:
    """A stack whose gateway is a voice server that already runs."""

    urls: list[str]
    redis_url = "memory://"
    metrics_urls: ClassVar[dict[str, str]] = {"gw-1": "http://127.0.0.1:4/metrics"}

    def __init__(self, plan: StackPlan, say: Say) -> None:
        assert plan.gateways == 2

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@pytest.fixture
def arguments(tmp_path: Path) -> argparse.Namespace:
    question = tmp_path / "question.wav"
    write_pcm16_wav(question, array("h", [6_000, -6_000] * 1_600).tobytes(), sample_rate_hz=16_000)
    return argparse.Namespace(
        wav=question, out=tmp_path / "out", model="cascade", redis_url=None, timeout_s=10.0, calm=True
    )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[VoiceServer, MemoryLog], None]:
    def use(server: VoiceServer, log: MemoryLog) -> None:
        monkeypatch.setattr(StandInStack, "urls", [server.url, server.url], raising=False)
        monkeypatch.setattr(demo, "Stack", StandInStack)
        monkeypatch.setattr(show, "open_log", lambda url, settings: log)

    return use


async def test_a_whole_conversation_ends_with_both_sides_in_words(
    arguments: argparse.Namespace,
    stand_in: Callable[[VoiceServer, MemoryLog], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = MemoryLog()
    await record_session(log, "sess_1")
    # Whatever it hears, this server understands its one sentence: the answer comes back word for word.
    async with voice_server(question="It is noon.", answer="It is noon.") as server:
        stand_in(server, log)
        assert await demo.run(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.index("The log of session sess_1") < printed.index("Latency") < printed.index("In words")
    assert "answer, as heard back    It is noon." in printed
    assert "everything is stopped" in printed
    assert (arguments.out / "answer.wav").exists()


async def test_an_answer_that_sounds_unlike_its_words_fails_the_demo(
    arguments: argparse.Namespace,
    stand_in: Callable[[VoiceServer, MemoryLog], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = MemoryLog()
    await record_session(log, "sess_1")
    async with voice_server(question="Something else", answer="It is noon.") as server:
        stand_in(server, log)
        assert await demo.run(arguments) == 1
    assert "FAILED: the answer sounds unlike its words" in capsys.readouterr().out


def conversation(*, question: str = "Hi?", text: str = "Hello.", pcm: bytes = b"\0\0") -> Conversation:
    answer = Answer("r", status="completed", text=text, pcm=bytearray(pcm))
    return Conversation(answers={"r": answer}, transcripts={"i": question})


WHOLE = Survival(lost="gw-1", went_on=True, pause_ms=300.0, frames=90, missing=0, repeated=0)


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({"lost": ""}, "no gateway was lost in the middle of the answer"),
        ({"went_on": False}, "the call did not go on at another gateway"),
        ({"missing": 1}, "frames were lost or repeated"),
        ({"repeated": 1}, "frames were lost or repeated"),
    ],
)
def test_a_call_that_did_not_survive_fails_the_demo(change: dict[str, object], trouble: str) -> None:
    assert demo.missing(conversation(), "hello", replace(WHOLE, **change)) == [trouble]


def test_nothing_is_missing_from_a_whole_conversation() -> None:
    assert demo.missing(conversation(), "hello", WHOLE) == []


@pytest.mark.parametrize(
    ("subject", "heard_back", "trouble"),
    [
        (conversation(question=""), "hello", "the question was not understood"),
        (conversation(text=" "), "hello", "there is no answer in words"),
        (conversation(pcm=b""), "hello", "the answer has no sound"),
        (conversation(), "", "the answer could not be transcribed back"),
        (conversation(), "goodbye", "the answer sounds unlike its words"),
        (Conversation(transcripts={"i": "Hi?"}), "", "there is no answer in words"),
    ],
)
def test_each_missing_part_is_named(subject: Conversation, heard_back: str, trouble: str) -> None:
    assert trouble in demo.missing(subject, heard_back, WHOLE)


@pytest.mark.parametrize(
    ("said", "heard", "least", "most"),
    [
        ("It's twelve o'clock.", "its twelve o'clock", 0.6, 0.7),
        ("The same words", "the SAME words!", 1.0, 1.0),
        ("nothing in common", "whatever", 0.0, 0.0),
    ],
)
def test_likeness_counts_words(said: str, heard: str, least: float, most: float) -> None:
    assert least <= demo.alike(said, heard) <= most
