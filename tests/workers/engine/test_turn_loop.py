"""The loop of models that are asked turn by turn, driven over a socket from this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support import engine_owner
from tests.support.engine_owner import owned
from tests.support.toy_turns import ToyTurns
from workers.engine.child import loop_of
from workers.engine.contract import EngineDead
from workers.engine.turn_loop import TurnLoop
from workers.engine.turn_queue import BACKLOG_PER_SLOT
from workers.engine.turns import TurnPiece, pack_turn, unpack_pieces
from workers.engine.wire import Message

pytestmark = pytest.mark.unit

FOREVER = 10**12
"""Pieces of a prompt that is never read to its end, however fast the loop's thread is."""


class Owner(engine_owner.Owner):
    """Asks for turns, and keeps the pieces of each."""

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link)
        self.pieces: dict[str, list[TurnPiece]] = {}

    def ask(self, turn: str, say: str = "", *sounds: bytes, memory: bytes = b"", **asked: object) -> None:
        opening, blob = pack_turn({"say": say, **asked}, sounds, memory)
        self.do("open", blob, session=turn, opening=opening)

    def close(self, turn: str) -> None:
        self.do("close", session=turn)

    def passed(self, message: Message, blob: bytes) -> None:
        for turn, piece in unpack_pieces(message.get("rows", ()), blob):
            self.pieces.setdefault(turn, []).append(piece)

    def said(self, turn: str) -> str:
        return "".join(piece.text for piece in self.pieces.get(turn, ()))

    def ended(self, turn: str) -> list[TurnPiece]:
        """All of the turn's pieces, once it has ended."""
        while not any(piece.ends for piece in self.pieces.get(turn, ())):
            self.told("pieces")
        return self.pieces[turn]

    def until(self, turn: str, letters: int) -> None:
        while len(self.said(turn)) < letters:
            self.told("pieces")


@pytest.fixture
def engine() -> ToyTurns:
    return ToyTurns({})


@pytest.fixture
def owner(engine: ToyTurns) -> Iterator[Owner]:
    with owned(lambda link: TurnLoop(engine, link).run, Owner) as owner:
        yield owner


def test_the_child_takes_the_loop_for_what_the_factory_made() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert isinstance(loop_of(ToyTurns({}), theirs), TurnLoop)


def test_it_says_first_what_it_is(owner: Owner) -> None:
    assert owner.told("loaded")[0]["facts"]["name"] == "toy turns"


def test_a_turn_is_answered_piece_by_piece_and_its_slot_is_free_again(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("a:1", "abc", b"..", b"...", session_id="a", calls=["f"])
    pieces = owner.ended("a:1")
    assert [piece.text for piece in pieces] == ["a", "b", "c", ""]
    assert b"".join(piece.pcm for piece in pieces) == b"a\0b\0c\0"
    assert (pieces[-1].ends, pieces[-1].input_tokens, pieces[-1].output_tokens) == ("stop", 2, 3)
    assert [call.name for call in pieces[-1].calls] == ["f"]
    assert engine.turns == {}


def test_a_turn_goes_on_behind_what_it_had_given(owner: Owner) -> None:
    owner.ask("a", "abcdef", memory=b"abc")
    owner.ended("a")
    assert owner.said("a") == "def"


def test_a_turn_joins_between_two_steps_of_another(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("long", endless=True)
    owner.until("long", 3)
    owner.ask("short", "xyz")
    owner.ended("short")
    assert owner.said("short") == "xyz"
    assert [0, 1] in engine.batches, "both were in one step"
    owner.close("long")


def test_a_long_prompt_is_read_beside_answers(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("answer", endless=True)
    owner.until("answer", 1)
    before = len(engine.batches)
    owner.ask("prompt", "p", reads=20)
    owner.ended("prompt")
    steps = engine.batches[before:]
    assert sum(step == [0] for step in steps) >= 19, "a step came between each two pieces of the prompt"
    owner.close("answer")


def test_prompts_are_read_in_turns(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("long", "long", reads=FOREVER)
    owner.ask("short", "short", reads=2)
    owner.ended("short")
    pieces = len(engine.reading)
    owner.close("long")
    assert engine.reading[:pieces].count("short") == 2, "it was read while the long one still is"


def test_a_cancelled_turn_frees_its_slot_at_once_and_nothing_is_heard_of_it(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("a", endless=True)
    owner.ask("b", endless=True)
    owner.until("a", 1)
    owner.until("b", 1)
    owner.ask("c", "waits")
    owner.close("a")
    owner.ended("c")
    had = len(owner.pieces["a"])
    owner.until("b", len(owner.said("b")) + 5)
    assert len(owner.pieces["a"]) == had
    owner.close("b")


def test_a_turn_cancelled_while_it_waits_or_reads_never_begins(owner: Owner, engine: ToyTurns) -> None:
    owner.ask("a", endless=True)
    owner.ask("reads", "never", reads=FOREVER)
    owner.until("a", 3)
    owner.ask("waits", "neither")
    owner.close("waits")
    owner.close("reads")
    owner.ask("next", "n")
    owner.ended("next")
    assert {"reads", "waits"}.isdisjoint(owner.pieces)
    owner.close("a")


def test_sessions_share_the_slots(owner: Owner) -> None:
    owner.ask("a", endless=True, session_id="a")
    owner.ask("b", endless=True, session_id="b")
    owner.until("a", 1)
    owner.until("b", 1)
    owner.ask("a2", "second", session_id="a")
    owner.ask("c", "first", session_id="c")
    owner.close("b")
    owner.ended("c")
    assert owner.said("a2") == "", "who was served already waits behind who was not"
    owner.ended("a2")
    owner.close("a")


def test_more_turns_than_can_wait_are_refused(owner: Owner) -> None:
    for turn in ("a", "b"):
        owner.ask(turn, endless=True)
        owner.until(turn, 1)
    for number in range(2 * BACKLOG_PER_SLOT + 1):
        owner.ask(f"w{number}", "w")
    refused, _ = owner.told("refused")
    assert (refused["session"], refused["code"]) == (f"w{2 * BACKLOG_PER_SLOT}", "resource_exhausted")
    owner.close("a")
    owner.ended("w0")
    owner.close("b")


def test_what_cannot_be_served_is_refused_alone(owner: Owner) -> None:
    owner.ask("a", endless=True)
    owner.ask("b", "b", voice="unknown")
    assert owner.told("refused")[0]["param"] == "session.voice"
    owner.ask("c", "c", huge=True)
    assert owner.told("refused")[0]["code"] == "resource_exhausted"
    owner.ask("d", "d")
    owner.ended("d")
    owner.close("a")


def test_a_sick_turn_ends_alone(owner: Owner) -> None:
    owner.ask("well", "abcdefgh")
    owner.ask("sick", "ab!")
    assert owner.told("failed")[0]["session"] == "sick"
    owner.ended("well")
    assert owner.said("well") == "abcdefgh"
    assert owner.said("sick") == "ab"


def test_a_turn_that_finds_no_memory_on_its_way_ends_alone(owner: Owner) -> None:
    owner.ask("well", "abcdefgh")
    owner.ask("big", "ab#")
    refused, _ = owner.told("refused")
    assert (refused["session"], refused["code"]) == ("big", "resource_exhausted")
    owner.ended("well")
    assert owner.said("well") == "abcdefgh"


def test_what_is_no_turn_fails_alone(owner: Owner) -> None:
    owner.do("open", session="odd", opening={})
    assert owner.told("failed")[0]["session"] == "odd"
    owner.ask("a", "a")
    owner.ended("a")


def test_a_dead_engine_ends_the_loop() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        died: list[BaseException] = []

        def run() -> None:
            try:
                TurnLoop(ToyTurns({}), theirs).run()
            except EngineDead as error:
                died.append(error)

        loop = threading.Thread(target=run)
        loop.start()
        Owner(ours).ask("a", "abX")
        loop.join(30)
        assert [str(error) for error in died] == ["told to die"]
