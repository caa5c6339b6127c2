"""An engine that comes after one that died: the window is there, and what is said next is what would have been said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from tests.support.held import Lines, holder
from workers.engine.contract import Stepped
from workers.engine.holding import Holding
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.transformers import MoshiModel
from workers.neural.personaplex import beat
from workers.neural.personaplex.engine import PersonaPlexEngine, make
from workers.neural.personaplex.memory import unpack_frames
from workers.neural.personaplex.windows import SPARE_FRAMES

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

OPTIONS = {"weights": "random", "shape": "tiny", "slots": "3", "threads": "1", "keep": "windows"}
ANNA = {"session_id": "anna", "incarnation": 0, "instructions": "be kind"}
BERT = {"session_id": "bert", "incarnation": 2, "instructions": "be brief and kind"}
FRAMES = 60
"""More than two windows: the ring has been filled again and again."""
SOUND = np.random.default_rng(1).normal(0, 0.1, (FRAMES, 1, 1920)).astype(np.float32)


@pytest.fixture
def lines() -> Iterator[Lines]:
    with holder() as found:
        yield found


def loaded(line: Holding | None, **more: str) -> PersonaPlexEngine:
    engine = make({**OPTIONS, **more})
    if line is not None:
        engine.hold(line)
    engine.prepare()
    engine.load()
    return engine


def opened(engine: PersonaPlexEngine, opening: Mapping[str, object], memory: bytes = b"") -> int:
    """Open a session where the engine would have it; in which slot that is."""
    slot = engine.place(opening, [slot for slot in range(3) if slot not in engine._frames])
    for _ in engine.open(slot, opening, memory):
        pass
    return slot


def memory_of(stepped: list[Stepped]) -> bytes:
    return b"".join(one.memory for one in stepped)


@dataclass
class Talk:
    """One session's frames, of a caller whose codes are the same in every engine, whatever its encoder finds."""

    opening: Mapping[str, object]
    seed: int
    stepped: list[Stepped] = field(default_factory=list)

    def step(self, engine: PersonaPlexEngine, slot: int) -> Stepped:
        """The next frame."""
        codes = np.random.default_rng((self.seed, len(self.stepped))).integers(0, TINY.code_card, 8)
        device = engine.parts.beat
        parts = device.parts
        device.parts = (lambda: device.stepper.user[slot].copy_(torch.from_numpy(codes)), *parts[1:])  # type: ignore[assignment]
        (found,) = engine.step([slot], SOUND[len(self.stepped) % FRAMES])
        device.parts = parts
        self.stepped.append(found)
        return found


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[Callable[[str], list[Stepped]]]:
    """What Anna's session is like in an engine that nobody killed, by how keys and values are kept."""
    known: dict[str, list[Stepped]] = {}

    def found(kv: str) -> list[Stepped]:
        if kv not in known:
            with holder() as lines:
                engine = loaded(lines(), kv=kv)
                talk, slot = Talk(ANNA, 5), opened(engine, ANNA)
                for _ in range(FRAMES):
                    talk.step(engine, slot)
                known[kv] = talk.stepped
        return known[kv]

    yield found


def no_more_filling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loads weights or makes a window now fails."""

    def fail(*arguments: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(MoshiModel, "fill_with_noise", fail)
    for name in ("prefill", "prefill_whole", "retrace"):
        monkeypatch.setattr(f"workers.neural.moshi.stepper.Stepper.{name}", fail)


@pytest.mark.parametrize(
    ("kv", "at", "lost"),
    [
        ("auto", 3, 0),
        ("auto", 3, 3),
        ("auto", 20, 1),
        ("auto", 45, SPARE_FRAMES),
        ("int8", 20, 0),
        ("int8", 45, SPARE_FRAMES),
        ("bf16", 45, SPARE_FRAMES),
    ],
)
def test_a_session_goes_on_exactly_where_it_was_heard_last(
    lines: Lines,
    undisturbed: Callable[[str], list[Stepped]],
    monkeypatch: pytest.MonkeyPatch,
    kv: str,
    at: int,
    lost: int,
) -> None:
    """Before the window is full and long after; with frames that the dead engine stepped and nobody heard of."""
    true = undisturbed(kv)
    first = loaded(lines(), kv=kv)
    talk, slot = Talk(ANNA, 5), opened(first, ANNA)
    for _ in range(at):
        talk.step(first, slot)
    no_more_filling(monkeypatch)
    second = loaded(lines(), kv=kv)
    del talk.stepped[at - lost :]
    assert opened(second, ANNA, memory_of(talk.stepped)) == slot
    while len(talk.stepped) < FRAMES:
        talk.step(second, slot)
    assert [one.memory for one in talk.stepped] == [one.memory for one in true]
    assert [one.text for one in talk.stepped] == [one.text for one in true]


def test_the_window_of_the_next_engine_is_that_of_the_last_one_bit_by_bit(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where steps are recorded, which runs them."""

    def recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
        for _ in range(3):
            work()
        return work

    monkeypatch.setattr(beat, "recorded", recorded)
    first = loaded(lines())
    talk, slot = Talk(ANNA, 5), opened(first, ANNA)
    for _ in range(40):
        talk.step(first, slot)
    were = [ring.keys[slot].clone() for ring in first.parts.beat.stepper.rings]
    second = loaded(lines())
    column = (second.opening_frames(ANNA) + 40) % (TINY.window + SPARE_FRAMES)
    for was, ring in zip(were, second.parts.beat.stepper.rings, strict=True):
        differs = (ring.keys[slot] != was).any(-1).any(0).nonzero().flatten().tolist()
        # Only where the next frame will be has anything been written.
        assert set(differs) <= {column}


def test_sessions_beside_each_other_are_all_found_and_new_ones_find_room(
    lines: Lines, undisturbed: Callable[[str], list[Stepped]]
) -> None:
    """One comes back late, when others have stepped beside its window for a while."""
    first = loaded(lines())
    anna, bert = Talk(ANNA, 5), Talk(BERT, 6)
    beside = opened(first, BERT)
    slot = opened(first, ANNA)
    for _ in range(30):
        anna.step(first, slot)
        bert.step(first, beside)
    second = loaded(lines())
    carl = Talk({"session_id": "carl"}, 7)
    room = opened(second, carl.opening)
    assert room not in (slot, beside)
    del bert.stepped[-2:]
    assert opened(second, BERT, memory_of(bert.stepped)) == beside
    for _ in range(9):
        bert.step(second, beside)
        carl.step(second, room)
    assert opened(second, ANNA, memory_of(anna.stepped)) == slot
    while len(anna.stepped) < FRAMES:
        anna.step(second, slot)
        bert.step(second, beside)
    assert [one.memory for one in anna.stepped] == [one.memory for one in undisturbed("auto")]
    third = loaded(lines())
    assert opened(third, BERT, memory_of(bert.stepped)) == beside


def test_a_window_that_was_rebuilt_is_kept_like_any_other(
    lines: Lines, undisturbed: Callable[[str], list[Stepped]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the end of a long memory: its positions no longer count from the session's first frame."""
    true = undisturbed("auto")
    first = loaded(lines())
    talk = Talk(ANNA, 5, list(true[:50]))
    slot = opened(first, ANNA, memory_of(true[10:50]))
    expected = Talk(ANNA, 5, list(true[:50]))
    for _ in range(3):
        talk.step(first, slot)
        expected.stepped.append(talk.stepped[-1])
    alone = loaded(None)
    lonely = Talk(ANNA, 5, list(true[:50]))
    for _ in alone.open(0, ANNA, memory_of(true[10:50])):
        pass
    for _ in range(10):
        lonely.step(alone, 0)
    no_more_filling(monkeypatch)
    second = loaded(lines())
    opened(second, ANNA, memory_of(talk.stepped[10:]))
    for _ in range(7):
        talk.step(second, slot)
    assert [one.memory for one in talk.stepped] == [one.memory for one in lonely.stepped]


def test_a_session_that_was_heard_too_long_ago_is_rebuilt_and_that_is_said(
    lines: Lines, undisturbed: Callable[[str], list[Stepped]], capsys: pytest.CaptureFixture[str]
) -> None:
    first = loaded(lines())
    talk, slot = Talk(ANNA, 5), opened(first, ANNA)
    for _ in range(30):
        talk.step(first, slot)
    second = loaded(lines())
    del talk.stepped[30 - SPARE_FRAMES - 1 :]
    assert opened(second, ANNA, memory_of(talk.stepped)) == slot
    assert "session=anna is rebuilt: its window stands at frame 46, its memory at 37" in capsys.readouterr().err
    while len(talk.stepped) < FRAMES:
        talk.step(second, slot)
    assert [one.memory for one in talk.stepped] == [one.memory for one in undisturbed("auto")]


def test_a_memory_with_another_last_frame_is_not_continued_in_that_window(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    first = loaded(lines())
    talk, slot = Talk(ANNA, 5), opened(first, ANNA)
    for _ in range(5):
        talk.step(first, slot)
    memory = memory_of(talk.stepped)
    second = loaded(lines())
    opened(second, ANNA, memory[:-2] + bytes([memory[-2] ^ 1, memory[-1]]))
    assert "its window was made with another frame 20" in capsys.readouterr().err
    third = loaded(lines())
    opened(third, ANNA, memory[:-2] + bytes([memory[-2] ^ 1, memory[-1]]))
    assert capsys.readouterr().err == ""


def test_a_session_that_was_closed_or_is_another_finds_no_window(lines: Lines) -> None:
    first = loaded(lines())
    slot = opened(first, ANNA)
    talk = Talk(ANNA, 5)
    talk.step(first, slot)
    first.close(slot)
    second = loaded(lines())
    assert second.parts.windows is not None and second.parts.windows.positions == [0, 0, 0]
    slot = opened(second, ANNA)
    third = loaded(lines())
    windows = third.parts.windows
    assert windows is not None and windows.is_set(slot)
    assert opened(third, {**ANNA, "incarnation": 1}) != slot


def test_windows_of_other_options_are_not_taken(lines: Lines) -> None:
    first = loaded(lines())
    opened(first, ANNA)
    second = loaded(lines(), window_frames="30")
    assert second.parts.windows is not None and second.parts.windows.positions == [0, 0, 0]


def test_weights_alone_are_found_and_windows_are_made_again(
    lines: Lines, undisturbed: Callable[[str], list[Stepped]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = loaded(lines(), keep="weights")
    monkeypatch.setattr(MoshiModel, "fill_with_noise", None)
    second = loaded(lines(), keep="weights")
    assert second.parts.windows is None and second.parts.beat.stepper.rings[0].columns == TINY.window
    for mine, theirs in zip(
        second.parts.beat.codec.model.parameters(), first.parts.beat.codec.model.parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)
    number, _ = unpack_frames(undisturbed("auto")[0].memory)
    slot = opened(second, ANNA)
    assert unpack_frames(Talk(ANNA, 5).step(second, slot).memory)[0] == number


def test_nothing_is_kept_without_somebody_who_holds_it() -> None:
    engine = loaded(None)
    assert engine.parts.windows is None
    engine.close(0)
