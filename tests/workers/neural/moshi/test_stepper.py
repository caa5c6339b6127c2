"""Slots that live apart: neighbours, gaps, replays, and what remains exact past the window."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from workers.neural.moshi.sampling import Sampling
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import FREE, Standing, Stepper
from workers.neural.moshi.transformers import MoshiModel

pytestmark = pytest.mark.neural

SLOTS, FRAMES = 4, 60
MODEL = MoshiModel(TINY)
MODEL.fill_with_noise(1)
SAID = torch.randint(0, TINY.code_card, (3, FRAMES, TINY.codebooks), generator=torch.Generator().manual_seed(2))
Frame = tuple[list[int], int, list[int]]


def stepper(**more: object) -> Stepper:
    return Stepper(MODEL, SLOTS, **more)  # type: ignore[arg-type]


def frame_of(one: Stepper, slot: int) -> Frame:
    return one.record[slot].tolist(), int(one.text[slot]), one.agent[slot].tolist()


def alone(one: Stepper, slot: int, said: Tensor, *, start: int = 0) -> list[Frame]:
    """A session in ``slot`` with nobody beside it, from where the slot stands."""
    found = []
    one.run.zero_()
    one.run[slot] = True
    for words in said[start:]:
        one.user[slot] = words
        one.step()
        found.append(frame_of(one, slot))
    return found


def rebuilt(one: Stepper, slot: int, frames: list[Frame], *, piece: int, skipped: int = 0) -> None:
    """Bring a reset slot to where a session of these frames stood; with ``skipped``, from its later frames only."""
    records = torch.tensor([record for record, _, _ in frames])
    before = Standing.first(TINY)
    if skipped:
        last, older = (records[skipped + back].tolist() for back in (1, 0))
        heard = (tuple(last[TINY.made :]), tuple(older[TINY.made :]))
        before = Standing(tuple(last[: TINY.made]), heard, (FREE,) * TINY.made)
        records = records[skipped + 2 :]
    ids, standing = one.inputs_of(records, before)
    at = 0
    for part in ids.split(piece):
        one.prefill(slot, part, at)
        at += len(part)
    one.place(slot, standing, origin=len(frames) - at)


@pytest.mark.parametrize("is_greedy", [True, False])
def test_a_session_makes_the_same_frames_whatever_runs_beside_it(is_greedy: bool) -> None:
    one = stepper(sampling=Sampling(greedy=is_greedy))
    whole = []
    for number, said in enumerate(SAID):
        one.reset(0, (number, 5))
        whole.append(alone(one, 0, said))
    # Session 0 in slot 2 from the first beat; 1 in slot 0 from the seventh, missing every fifth; 2 follows 0 in slot 2.
    plan = {0: (2, 0), 1: (0, 7), 2: (2, FRAMES + 1)}
    found: dict[int, list[Frame]] = {0: [], 1: [], 2: []}
    dice = torch.Generator().manual_seed(3)
    for beat in range(2 * FRAMES + 2):
        one.run.zero_()
        one.user.random_(0, TINY.code_card, generator=dice)
        stepping = {}
        for session, (slot, joins) in plan.items():
            at = len(found[session])
            if beat < joins or at == FRAMES or (session == 1 and beat % 5 == 3):
                continue
            if at == 0:
                one.reset(slot, (session, 5))
            one.user[slot] = SAID[session, at]
            stepping[session] = slot
        for slot in stepping.values():
            one.run[slot] = True
        one.step()
        for session, slot in stepping.items():
            found[session].append(frame_of(one, slot))
    assert [found[session] == whole[session] for session in range(3)] == [True] * 3


@pytest.mark.parametrize("store", [torch.float32, torch.int8])
@pytest.mark.parametrize("frames", [2, 20, 40])
def test_a_session_goes_on_in_another_slot_of_another_stepper(store: torch.dtype, frames: int) -> None:
    one, other = stepper(store=store), stepper(store=store)
    one.reset(1, (9, 9))
    whole = alone(one, 1, SAID[0])
    other.reset(3, (9, 9))
    rebuilt(other, 3, whole[:frames], piece=7)
    assert alone(other, 3, SAID[0], start=frames) == whole[frames:]


def test_two_windows_of_a_longer_session_are_enough_and_one_is_not() -> None:  # V49
    """Two layers: what the upper one keeps was made from what the lower one saw a window before."""
    one = stepper(sampling=Sampling(greedy=True))
    said = torch.cat([SAID[0], SAID[1]])
    one.reset(0, (4, 4))
    whole = alone(one, 0, said)
    window, frames = TINY.window, 100
    kept = {}
    for windows in (1, 2):
        one.reset(2, (4, 4))
        rebuilt(one, 2, whole[:frames], piece=16, skipped=frames - windows * window - 2)
        hidden = []
        for number, words in enumerate(said[frames:]):
            one.user[2] = words
            one.run.zero_()
            one.run[2] = True
            one.step()
            hidden.append(frame_of(one, 2) == whole[frames + number])
        kept[windows] = sum(hidden)
    assert kept[2] == len(said) - frames
    assert kept[1] < kept[2]


def test_forced_ids_are_made_and_the_ids_after_them_follow_from_them() -> None:
    one = stepper(sampling=Sampling(greedy=True))
    one.reset(0, (1, 1))
    one.reset(1, (1, 1))
    standing = Standing.first(TINY)
    one.place(0, replace(standing, forced=(42, 11, *standing.forced[2:])))
    one.run.fill_(True)
    one.user.zero_()
    one.step()
    assert one.record[0, :2].tolist() == [42, 11]
    assert one.record[1, :2].tolist() != [42, 11]
    # Delayed codes have nothing to say in the first frame of all.
    assert one.record[1, 2 : TINY.made].tolist() == [TINY.code_card] * 7
    one.step()
    assert (one.record[:, : TINY.made] < TINY.text_card).all()


def test_the_caller_is_looked_at_one_frame_later_and_delayed_codes_two() -> None:
    one = stepper()
    one.reset(0, (1, 1))
    whole = alone(one, 0, SAID[0][:6])
    ids, _ = one.inputs_of(torch.tensor([record for record, _, _ in whole]), Standing.first(TINY))
    nothing = TINY.code_card
    assert ids[0].tolist() == [TINY.text_card] + [nothing] * 16
    assert ids[1, TINY.made :].tolist() == [int(SAID[0, 0, 0])] + [nothing] * 7
    assert ids[4, TINY.made :].tolist() == [int(SAID[0, 3, 0]), *SAID[0, 2, 1:].tolist()]
    assert ids[4, : TINY.made].tolist() == whole[3][0][: TINY.made]
    # What can be heard: the first code of the frame before, the delayed ones of this.
    assert whole[4][1:] == (whole[3][0][0], [whole[3][0][1], *whole[4][0][2 : TINY.made]])


def test_an_int8_ring_stays_close_to_float32() -> None:
    exact, small = stepper(), stepper(store=torch.int8)
    worst = 0.0
    for words in SAID[0]:
        for one in (exact, small):
            one.run.fill_(True)
            one.user.copy_(words.expand(SLOTS, -1))
            one.step()
        worst = max(worst, float((small.hidden - exact.hidden).norm() / exact.hidden.norm()))
        small.follow(exact)
    assert 0 < worst < 0.03


@pytest.mark.parametrize("store", [torch.float32, torch.int8])
def test_a_slot_that_is_set_back_by_its_spare_frames_makes_them_again(store: torch.dtype) -> None:
    """Long after its ring is full, and with a neighbour that it does not touch."""
    one = stepper(store=store, spare=3)
    one.reset(1, (4, 4))
    whole = alone(one, 1, SAID[0])
    made, _, _ = whole[-4]
    heard = [record[TINY.made :] for record, _, _ in (whole[-4], whole[-5])]
    standing = Standing(tuple(made[: TINY.made]), (tuple(heard[0]), tuple(heard[1])), (FREE,) * TINY.made)
    one.place(1, standing, position=FRAMES - 3)
    # It stands at its place while others step, and the column of its next frame is written over.
    one.reset(0, (5, 5))
    alone(one, 0, SAID[1][:9])
    assert alone(one, 1, SAID[0], start=FRAMES - 3) == whole[-3:]


def test_a_window_lies_where_there_is_room_for_it() -> None:
    given: dict[str, Tensor] = {}

    def room(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return given.setdefault(name, torch.zeros(shape, dtype=dtype))

    one = stepper(store=torch.int8, spare=2, room=room)
    assert sorted(given) == ["0.rows", "0.scales", "1.rows", "1.scales"]
    alone(one, 1, SAID[0][:4])
    assert all(bool(tensor[:, 1, :, :4].any()) for tensor in given.values())
    assert stepper(store=torch.int8, spare=2, room=room).rings[1].keys.data_ptr() == one.rings[1].keys.data_ptr()
