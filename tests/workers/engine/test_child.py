"""The loop in the engine's process, driven over a socket from this one."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.support.engine_owner import Owner, owned
from tests.support.toy_engine import ToyEngine, frame
from tests.support.toy_nemotron import ToyNemotron
from tests.support.toy_nemotron import frame as silence
from workers.engine.child import EngineLoop, make_engine, wait_for_load
from workers.engine.contract import EngineRefused
from workers.engine.wire import Unpacker, pack

pytestmark = pytest.mark.unit


@pytest.fixture
def owner() -> Iterator[Owner]:
    with owned(lambda link: EngineLoop(ToyEngine({"slots": "2"}), link).run, Owner) as owner:
        yield owner


def test_it_says_first_what_it_is(owner: Owner) -> None:
    message, _ = owner.told("loaded")
    assert message["facts"]["name"] == "toy"


def test_sessions_that_have_a_frame_step_together_and_the_others_stand_still(owner: Owner) -> None:  # V55
    for name in "ab":
        owner.do("open", session=name, opening={})
        owner.told("ready")
    owner.do("feed", frame(2), session="b")
    message, blob = owner.told("tick")
    assert [row[:3] for row in message["rows"]] == [["b", "2 ", True]]
    assert len(blob) == sum(row[3] + row[4] for row in message["rows"])
    assert message["work_ms"] >= 0
    assert isinstance(message["late"], bool), "how late is up to the machine; see the ticker"


def test_sound_that_comes_before_the_slot_is_prepared_is_not_lost(owner: Owner) -> None:
    owner.do("open", frame(0)[:80], session="a", opening={})  # forty remembered frames to replay
    owner.do("feed", frame(4), session="a")
    message, _ = owner.told("tick")
    assert message["rows"][0][:2] == ["a", "4 "]


def test_what_is_dropped_is_counted(owner: Owner) -> None:
    owner.do("open", session="a", opening={})
    owner.told("ready")
    owner.do("feed", frame(1) * 20, session="a")
    message, _ = owner.told("dropped")
    assert message == {"is": "dropped", "session": "a", "frames": 8}


def test_an_opening_that_is_closed_before_it_is_ready_leaves_a_free_slot(owner: Owner) -> None:
    for name in "abc":
        owner.do("open", session=name, opening={})
        owner.do("close", session=name)
    owner.do("open", session="d", opening={})
    ready = ""
    while ready != "d":  # some of the others may have been prepared before they were closed
        ready = owner.told("ready")[0]["session"]


def test_one_slow_opening_does_not_keep_the_others_waiting_for_good(owner: Owner) -> None:
    owner.do("open", session="a", opening={"slow_s": 0.3})  # fifteen periods in one piece
    owner.told("ready")
    owner.do("open", session="b", opening={})
    assert owner.told("ready")[0]["session"] == "b"


def test_sessions_that_are_rebuilt_together_begin_together(owner: Owner) -> None:
    """The first would have its beat long before the second is ready, and slow it down."""
    memory = frame(0)[:80]
    # The second one is there before the first is done.
    owner.do_together(
        ({"do": "open", "session": "a", "opening": {"slow_s": 0.3}}, memory),
        ({"do": "open", "session": "b", "opening": {"slow_s": 0.3}}, memory),
        ({"do": "feed", "session": "a"}, frame(1)),
        ({"do": "feed", "session": "b"}, frame(2)),
    )
    message, _ = owner.told("tick")
    assert [row[0] for row in message["rows"]] == ["a", "b"]


def test_nobody_waits_for_a_rebuild_that_was_given_up(owner: Owner) -> None:
    memory = frame(0)[:80]
    owner.do("open", memory, session="a", opening={"slow_s": 0.3})
    owner.do("open", memory * 100, session="b", opening={"slow_s": 0.1})
    owner.do("close", session="b")
    assert owner.told("ready")[0]["session"] == "a"


class ChoosyEngine(ToyEngine):
    """Would rather have the session named ``first`` in slot 0."""

    def place(self, opening: Mapping[str, Any], free: Sequence[int]) -> int:
        return 0 if opening.get("wants") == "first" and 0 in free else max(free)

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        if opening.get("wants") == "first" and slot != 0:
            raise EngineRefused("runtime_open_failed", f"put into slot {slot}")
        return super().open(slot, opening, memory)


def test_an_engine_may_say_which_of_the_free_slots_an_opening_should_have() -> None:
    with owned(lambda link: EngineLoop(ChoosyEngine({"slots": "3"}), link).run, Owner) as owner:
        owner.do("open", session="a", opening={})
        owner.told("ready")
        owner.do("open", session="b", opening={"wants": "first"})
        assert owner.told("ready")[0]["session"] == "b"
        owner.do("open", session="c", opening={"wants": "first"})
        assert owner.told("refused")[0]["message"] == "put into slot 1"
        owner.do("close", session="b")
        owner.do("open", session="d", opening={"wants": "first"})
        assert owner.told("ready")[0]["session"] == "d"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_process_that_is_prepared_loads_when_it_is_told_to_and_ends_with_its_worker(is_told: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if is_told:
            ours.sendall(pack({"do": "load"}))
        else:
            ours.shutdown(socket.SHUT_WR)
        assert wait_for_load(theirs) is is_told
        assert list(Unpacker().feed(ours.recv(100))) == [({"is": "prepared"}, b"")]


def test_stop_ends_the_loop(owner: Owner) -> None:
    owner.do("stop")


@pytest.fixture
def informed() -> Iterator[Owner]:
    with owned(lambda link: EngineLoop(ToyNemotron({}), link).run, Owner) as owner:
        yield owner


def test_what_it_is_informed_of_is_forced_a_token_a_frame_and_told_as_such(informed: Owner) -> None:
    informed.do("open", session="a", opening={"prompt": "", "tools": []})
    informed.told("ready")
    informed.do("inform", session="a", text="<SPECIAL_20>abcdefgh", told=0)
    for _ in range(4):
        informed.do("feed", silence(), session="a")
    rows = [informed.told("tick")[0]["rows"][0] for _ in range(4)]
    assert [row[5:] for row in rows] == [["<SPECIAL_20>", True], ["abcdef", True], ["gh", True], ["", False]]


def test_what_it_is_informed_of_before_it_is_ready_waits_and_what_was_told_is_left_out(informed: Owner) -> None:
    informed.do("open", session="a", opening={"prompt": "", "tools": []})
    informed.do("inform", session="a", text="abcdefgh", told=1)
    informed.do("feed", silence(), session="a")
    assert informed.told("tick")[0]["rows"][0][5:] == ["gh", True]


def test_what_there_is_no_room_for_is_said_and_nothing_else_happens(informed: Owner) -> None:
    informed.do("open", session="a", opening={"prompt": "", "tools": []})
    informed.do("inform", session="a", text="x" * 10_000, told=0)
    message, _ = informed.told("overfull")
    assert message == {"is": "overfull", "session": "a", "message": "1667 tokens are too many"}
    informed.do("feed", silence(), session="a")
    assert informed.told("tick")[0]["rows"][0][5:] == ["", False]


def test_words_that_an_engine_fails_at_are_said_and_nobody_else_hears_of_it(informed: Owner) -> None:
    informed.do("open", session="a", opening={"prompt": "", "tools": []})
    informed.do("inform", session="a", text="unsayable", told=0)
    assert informed.told("overfull")[0]["message"] == "ValueError: told to fail"
    informed.do("feed", silence(), session="a")
    assert informed.told("tick")[0]["rows"][0][5:] == ["", False]


def test_an_engine_that_takes_sound_only_says_so(owner: Owner) -> None:
    owner.do("open", session="a", opening={})
    owner.told("ready")
    owner.do("inform", session="a", text="x", told=0)
    assert owner.told("overfull")[0]["message"] == "this engine takes sound only"


def test_a_factory_is_found_by_its_path() -> None:
    assert isinstance(make_engine("tests.support.toy_engine:ToyEngine", {}), ToyEngine)
