"""The loop of models that work in units, driven over a socket from this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support import engine_owner
from tests.support.engine_owner import owned
from tests.support.toy_units import DEADLY, SICK, SLOW, ToyUnits, unit
from workers.engine.child import loop_of
from workers.engine.contract import EngineDead
from workers.engine.unit_loop import UnitLoop
from workers.engine.units import pack_unit
from workers.engine.wire import Message

pytestmark = pytest.mark.unit


class Owner(engine_owner.Owner):
    """Asks for units."""

    def unit(self, session: str, serial: int, value: float, *frames: bytes, forced: bool = False) -> None:
        self.send(*pack_unit(session, serial, unit(value), frames, forced))

    def all(self, kind: str, count: int) -> list[tuple[Message, bytes]]:
        return [self.told(kind) for _ in range(count)]

    def opened(self, session: str) -> None:
        self.do("open", session=session, opening={})
        assert self.told("ready")[0]["session"] == session


@pytest.fixture
def engine() -> ToyUnits:
    return ToyUnits({})


@pytest.fixture
def owner(engine: ToyUnits) -> Iterator[Owner]:
    with owned(lambda link: UnitLoop(engine, link).run, Owner) as owner:
        yield owner


def test_the_child_takes_the_loop_for_what_the_factory_made() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert isinstance(loop_of(ToyUnits({}), theirs), UnitLoop)


def test_it_says_first_what_it_is(owner: Owner) -> None:
    message, _ = owner.told("loaded")
    assert (message["facts"]["name"], message["facts"]["first_ms"]) == ("toy units", 40)


def test_a_unit_comes_back_with_its_number_its_words_and_its_sound(owner: Owner) -> None:
    owner.opened("a")
    owner.unit("a", 5, 3, b"x", b"y")
    message, blob = owner.told("unit")
    assert (message["session"], message["serial"], message["text"]) == ("a", 5, "3 320 x+y")
    assert not message["listens"] and len(blob) == 8


def test_a_model_that_must_listen_is_told_so(owner: Owner) -> None:
    owner.opened("a")
    owner.unit("a", 1, 3, forced=True)
    assert owner.told("unit")[0]["listens"]


def test_a_unit_that_comes_before_the_slot_is_prepared_waits(owner: Owner) -> None:
    owner.do("open", session="a", opening={})
    owner.unit("a", 1, 4)
    assert owner.told("ready")[0]["session"] == "a"
    assert owner.told("unit")[0]["serial"] == 1


def test_the_unit_being_worked_on_is_broken_off(owner: Owner, engine: ToyUnits) -> None:
    owner.opened("a")
    owner.opened("b")
    owner.unit("a", 1, SLOW * 1000)
    assert engine.busy.wait(30)
    owner.unit("b", 1, 6)
    owner.do("break", session="b")  # b is not being worked on: nothing to break
    owner.do("break", session="a")
    assert owner.told("unit")[0]["text"] == "broken True"
    assert owner.told("unit")[0]["session"] == "b"


def test_what_waits_when_the_caller_interrupts_is_only_listened_to(owner: Owner, engine: ToyUnits) -> None:
    owner.opened("a")
    owner.opened("b")
    owner.unit("b", 1, SLOW * 1000)
    assert engine.busy.wait(30)
    owner.unit("a", 1, 5)
    owner.do("break", session="a")
    owner.unit("a", 2, 5)
    owner.do("break", session="b")
    listens = {(message["session"], message["serial"]): message["listens"] for message, _ in owner.all("unit", 3)}
    assert listens == {("b", 1): True, ("a", 1): True, ("a", 2): False}


def test_a_session_that_closes_in_the_middle_of_a_unit_frees_its_slot_once_the_model_has_left_it(
    owner: Owner, engine: ToyUnits
) -> None:
    owner.opened("a")
    owner.opened("b")
    owner.unit("a", 1, SLOW * 1000)
    assert engine.busy.wait(30)
    owner.do("close", session="a")
    owner.unit("b", 1, 6)
    assert owner.told("unit")[0]["session"] == "b"
    owner.opened("c")
    owner.unit("c", 1, 8)
    assert owner.told("unit")[0]["text"].startswith("8 ")


def test_refusals_name_their_reason(owner: Owner) -> None:
    owner.do("open", session="a", opening={"voice": "unknown"})
    assert owner.told("refused")[0]["param"] == "session.voice"
    owner.opened("b")
    owner.opened("c")
    owner.do("open", session="d", opening={})
    assert owner.told("refused")[0]["code"] == "resource_exhausted"


def test_a_sick_session_fails_alone(owner: Owner) -> None:
    owner.opened("a")
    owner.opened("b")
    owner.unit("a", 1, SICK * 1000)
    owner.unit("b", 1, 2)
    assert owner.told("failed")[0]["session"] == "a"
    assert owner.told("unit")[0]["session"] == "b"


def test_a_dead_engine_ends_the_loop() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        died: list[BaseException] = []

        def run() -> None:
            try:
                UnitLoop(ToyUnits({}), theirs).run()
            except EngineDead as error:
                died.append(error)

        loop = threading.Thread(target=run)
        loop.start()
        owner = Owner(ours)
        owner.opened("a")
        owner.unit("a", 1, DEADLY * 1000)
        loop.join(30)
        assert [str(error) for error in died] == ["told to die"]
