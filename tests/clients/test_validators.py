"""The validators of strict stock clients, in their own environments, over everything a socket can hear in ``ga``."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import UpdateSession, wire_name
from duplex_es.protocol.dialects import GA, Listener, rewrite_command
from tests.clients.environment import HERE, clients_home, heard_out
from tests.protocol.dialects import samples
from tests.protocol.dialects.test_stock_commands import LIVEKIT, OPENAI_AGENTS, PIPECAT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SETTINGS: tuple[dict[str, Any], ...] = ({}, OPENAI_AGENTS, LIVEKIT, PIPECAT)


def ga_lines() -> list[str]:
    """Every frame there is, every published example, and whole calls as four clients open them, as they are sent."""
    # Seed clients may open at 16 kHz, which no stock client can be told: their session objects are left out.
    published = [frame for frame in samples.published() if wire_name(frame) != "session.created"]
    calls = []
    for session in SETTINGS:
        opening = rewrite_command(UpdateSession(session=session), GA, opening=True)
        assert isinstance(opening, UpdateSession)
        calls.append(samples.whole_call(opening.session))
    lines = []
    for number, stream in enumerate([list(samples.EVERY), published, *calls]):
        listener = Listener(GA)
        for place, frame in enumerate(stream):
            lines += listener.hear(frame, event_id=f"event_{number}_{place}", seq=place + 1)
    return lines


@pytest.mark.parametrize("program", ["validate_events.py", "validate_events.mjs"])
def test_strict_clients_accept_every_event(program: str) -> None:
    lines = ga_lines()
    modules = [str(clients_home() / "node_modules")] if program.endswith(".mjs") else []
    report = heard_out(program, "-", *modules, stdin="\n".join(lines))
    assert report["events"] == len(lines) > 300
    assert report["rejections"] == []


@pytest.mark.parametrize("program", ["validate_events.py", "validate_events.mjs"])
def test_strict_clients_refuse_what_they_do_not_know(program: str) -> None:
    modules = [str(clients_home() / "node_modules")] if program.endswith(".mjs") else []
    bad = '{"type":"input_audio_buffer.speech_started","event_id":"e"}'
    report = heard_out(program, "-", *modules, stdin=bad)
    assert {row["line"] for row in report["rejections"]} == {1}


def test_every_program_of_this_folder_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    programs = [path.name for pattern in ("run_*", "validate_*") for path in HERE.glob(pattern)]
    assert [name for name in programs if f'"{name}"' not in tests] == []
