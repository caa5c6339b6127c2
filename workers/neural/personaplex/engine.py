"""PersonaPlex behind the engine's contract: openings, beats, and going on from a memory."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused, Floats, Stepped
from workers.engine.holding import Holding

from ..keeping import Keeping
from ..mimi.codec import FRAME_SAMPLES, RATE_HZ
from ..moshi.ring import sent
from ..moshi.sampling import seed_of
from ..moshi.stepper import FREE, Standing
from .aging import age
from .beat import LOUDEST, Heard
from .building import Models, Parts, build, device_of, prepare
from .memory import MemoryBroken, pack_frame, unpack_frames
from .opening import Opening, persona_text, plan_opening
from .options import MEMORY_WINDOWS, NAME, RECORD_BYTES, EngineOptions, read_engine_options
from .silence import SILENT_TEXTS
from .voices import VoiceUnknown
from .windows import WindowLost, whose

FRAME_MS = 80
REFUSED = "invalid_duplex_runtime_config"
AUDIBLE = 0.01 * LOUDEST
"""A frame whose root mean square is above this is not silence."""
LEAST_ROOM_FRAMES = 100
"""In a smaller window, as tests have, even a short persona may not fit."""
EXACT_FRAMES = 4
"""So many frames of an exact rebuild go in between two beats."""
BUSY_S = 0.5
"""Somebody was stepped within this time: pieces must be short."""


def make(options: Mapping[str, str]) -> PersonaPlexEngine:
    """The engine for ``options``, not loaded yet. Raises: ValueError naming the option."""
    return PersonaPlexEngine(read_engine_options(options))


@dataclass(frozen=True, slots=True)
class _Session:
    """Who is opened, the dice, and the record of the last frame, if there was one."""

    name: str
    whose: bytes
    seed: tuple[int, int]
    last: bytes


class PersonaPlexEngine:
    """A ``FrameEngine``: 24 kHz in and out, one frame of 80 ms.

    A slot opened with the memory of a session, from its first frame on or the last two windows of it, makes the frames
    that the lost one would have made of the same caller's codes, up to rounding: its window is computed again from
    known ids in long pieces. The sound of what the model said goes on likewise. The codec's view of the caller cannot
    be remembered in ids: a fresh encoder is given the sound of the caller's last 10 s as the codes tell it, and the
    codes of the next frames may differ from those the lost one would have heard.
    """

    facts: EngineFacts

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._keeping: Keeping | None = None
        self._models: Models | None = None
        self._parts: Parts | None = None
        self._found_windows = False
        self._frames: dict[int, int] = {}
        self._stepped_s = 0.0
        self.facts = EngineFacts(
            name=NAME,
            frame_ms=FRAME_MS,
            input_rate_hz=RATE_HZ,
            output_rate_hz=RATE_HZ,
            slots=0,
            window_frames=options.memory_bytes // RECORD_BYTES,
            memory_bytes=RECORD_BYTES,
        )

    @property
    def parts(self) -> Parts:
        """What it consists of, once loaded. Raises: RuntimeError before."""
        if self._parts is None:
            raise RuntimeError("the engine is not loaded")
        return self._parts

    def hold(self, holding: Holding) -> None:
        """Before all else: keep weights and windows in memory that outlives this process, as the options say."""
        if self.options.keep != "nothing":
            self._keeping = Keeping(holding, device_of(self.options))

    def prepare(self) -> None:
        """What can be done beside another engine that works on the device; ``load`` takes less time then."""
        self._models = prepare(self.options, self._keeping)

    def load(self) -> None:
        """Load, record and rehearse. Raises: WeightsMissing, NoRoom, NoMemory, and as torch does."""
        parts = self._parts = build(self.options, self._keeping, self._models)
        kept = [] if parts.windows is None else parts.windows.positions
        for slot, position in enumerate(kept):
            # A slot that does not run is written where its next frame will be: not into a window that is kept.
            parts.beat.stepper.position[slot].fill_(position)
        parts.beat.record()
        self._found_windows = any(kept)
        if not self._found_windows:
            self._rehearse()
        device = parts.beat.stepper.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self.facts = replace(
            self.facts,
            slots=parts.beat.stepper.slots,
            window_frames=MEMORY_WINDOWS * parts.shape.window,
            device=name,
        )
        if self.options.aged and not self._found_windows:
            age(parts, None)
        # Nothing that was loaded will ever be garbage: a collection must not look at it in the middle of a beat.
        gc.collect()
        gc.freeze()

    # -- a session -------------------------------------------------------------------------------------------------

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        """See ``FrameEngine``. A memory that cannot be read, a voice that is not there: EngineRefused at once."""
        plan = self._plan(opening)
        frame, records = plan.frames, torch.empty(0, self.parts.shape.streams, dtype=torch.long)
        if memory:
            try:
                frame, ids = unpack_frames(memory)
                records = torch.from_numpy(ids)
                self._check(records)
            except MemoryBroken as error:
                raise EngineRefused("runtime_open_failed", f"the session cannot be continued from {error}") from None
        name = opening.get("session_id", "")
        seed = seed_of(self.options.seed, name, opening.get("incarnation", 0))
        session = _Session(name, whose(opening), seed, memory[-RECORD_BYTES:])
        return self._opened(slot, plan, session, frame, records)

    def place(self, opening: Mapping[str, Any], free: Sequence[int]) -> int:
        """The free slot that holds the window of this opening's session, or else one that holds nobody's, if any."""
        windows = self.parts.windows
        if windows is None:
            return free[-1]
        slot = windows.slot_of(whose(opening))
        if slot is not None and slot in free:
            return slot
        return next((each for each in reversed(free) if not windows.is_set(each)), free[-1])

    def opening_frames(self, opening: Mapping[str, Any]) -> int:
        """How many frames of the window the opening takes. Raises: EngineRefused."""
        return self._plan(opening).frames

    def _plan(self, opening: Mapping[str, Any]) -> Opening:
        parts = self.parts
        voice = None
        if parts.voices is not None:
            try:
                voice = parts.voices.get(opening.get("voice") or parts.voices.default)
            except VoiceUnknown as error:
                raise EngineRefused(REFUSED, f"session.voice: {error}", "session.voice") from None
        text = persona_text(opening.get("instructions"))
        plan = plan_opening(parts.shape, parts.pieces.ids(text) if text else (), voice)
        if plan.frames >= parts.shape.window:
            message = f"session.instructions: they fill {plan.frames} of the {parts.shape.window} frames of the window"
            raise EngineRefused(REFUSED, message, "session.instructions")
        return plan

    def _check(self, records: Tensor) -> None:
        shape = self.parts.shape
        if int(records[:, 0].max()) > shape.text_card or int(records[:, 1:].max()) > shape.code_card:
            raise MemoryBroken("a memory of another model's ids")

    def _opened(self, slot: int, plan: Opening, session: _Session, frame: int, records: Tensor) -> Iterator[None]:
        """Put in what is known, a chunk between two yields; nothing of it, if the window is there as it was left."""
        stepper, frames = self.parts.beat.stepper, frame + len(records)
        if frame == plan.frames:
            pieces, before, origin = list(plan.pieces), plan.standing, 0
        else:
            # Its beginning is forgotten: the first two frames only tell what those after them were given.
            before, origin = _standing_after(records[:2], self.parts.shape.made), frame + len(records[:2])
            pieces, records = [], records[2:]
        kept = self._set_back(slot, session, frames)
        with self._faults():
            self.parts.beat.reset(slot, session.seed)
        if kept is not None:
            _, standing = stepper.inputs_of(records, before)
            with self._faults():
                stepper.place(slot, standing, position=kept[0], origin=kept[1])
        elif len(records) and self.options.rebuild == "fast" and not self._is_busy:
            self._rebuild(slot, pieces, records, before, origin)
        else:
            yield from self._prepare(slot, pieces, records, before, origin)
        if len(records):
            self._revive(slot, records, before)
            if self._is_busy:
                self.parts.beat.synchronize()
            yield
        self._frames[slot] = frames
        if kept is None:
            position = age(self.parts, slot) if self.options.aged else frames - origin
            if self.parts.windows is not None:
                self.parts.windows.set(slot, session.whose, frames, position=position, origin=origin, last=session.last)

    def _set_back(self, slot: int, session: _Session, frames: int) -> tuple[int, int] | None:
        """Where the session's window goes on in ``slot``, and its origin; ``None``: it has to be made."""
        windows = self.parts.windows
        if windows is None:
            return None
        try:
            return windows.set_back(slot, session.whose, frames, session.last)
        except WindowLost as error:
            if self._found_windows and session.last:
                print(f"session={session.name} is rebuilt: {error}", file=sys.stderr)
            windows.end(slot)
            return None

    def _prepare(
        self, slot: int, pieces: Sequence[Tensor], records: Tensor, before: Standing, origin: int
    ) -> Iterator[None]:
        """In pieces that leave room for those who step beside."""
        stepper, at = self.parts.beat.stepper, 0
        for piece in pieces:
            # Always cut alike, so that the same opening is the same bit by bit.
            at = yield from self._put(slot, piece, at, self.options.chunk_frames)
        if self.options.rebuild == "exact" and len(records):
            yield from self._retrace(slot, records, before, origin)
            return
        ids, standing = stepper.inputs_of(records, before)
        yield from self._put(slot, ids, at, None)
        with self._faults():
            stepper.place(slot, standing, origin=origin)

    def _rebuild(self, slot: int, pieces: Sequence[Tensor], records: Tensor, before: Standing, origin: int) -> None:
        """All at once, as nobody steps beside. The device is not waited for: the next session comes right behind."""
        stepper = self.parts.beat.stepper
        ids, standing = stepper.inputs_of(records, before)
        with self._faults():
            stepper.place(slot, standing, origin=origin)
            stepper.prefill_whole(slot, [sent(piece, stepper.device) for piece in (*pieces, ids)])

    def _put(self, slot: int, piece: Tensor, at: int, longest: int | None) -> Generator[None, None, int]:
        """Known inputs from position ``at`` on; where they end. ``longest`` frames at a time; ``None``: as many as

        leave room for those who step beside, if anybody does.
        """
        stepper, window, done = self.parts.beat.stepper, self.parts.shape.window, 0
        while done < len(piece):
            most = min(longest or (self.options.chunk_frames if self._is_busy else window), window)
            # Until the window is full, looking at it is cheaper: no piece reaches over its end.
            chunk = piece[done : done + (min(most, window - at) if at < window else most)]
            with self._faults():
                stepper.prefill(slot, chunk.to(stepper.device), at)
                self.parts.beat.synchronize()
            at, done = at + len(chunk), done + len(chunk)
            yield
        return at

    def _retrace(self, slot: int, records: Tensor, before: Standing, origin: int) -> Iterator[None]:
        beat = self.parts.beat
        with self._faults():
            beat.stepper.place(slot, before, origin=origin)
        for few in records.to(beat.stepper.device).split(EXACT_FRAMES):
            with self._faults():
                beat.retrace(slot, few)
            yield

    def _revive(self, slot: int, records: Tensor, before: Standing) -> None:
        """Bring the codec to where it stood: the caller's last words into the encoder, ours into the decoder."""
        beat, shape = self.parts.beat, self.parts.shape
        made = torch.cat([torch.tensor([before.made]), records[:, : shape.made]])[:, 1:]
        said = torch.where(torch.tensor(shape.delays) > 0, made[1:], made[:-1])
        with self._faults():
            beat.reviver.revive(slot, beat.audible(records[:, shape.made :]), beat.audible(said))

    @property
    def _is_busy(self) -> bool:
        return time.monotonic() - self._stepped_s < BUSY_S

    def close(self, slot: int) -> None:
        """See ``FrameEngine``."""
        self._frames.pop(slot, None)
        if self._parts is not None and self._parts.windows is not None:
            self._parts.windows.end(slot)

    # -- the beat --------------------------------------------------------------------------------------------------

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        """See ``FrameEngine``. A sample that is no number is silence; one beyond full scale is full scale."""
        if frames.shape != (len(slots), FRAME_SAMPLES) or any(slot not in self._frames for slot in slots):
            raise ValueError(f"a beat of {frames.shape} for slots {list(slots)}, of which not all are open")
        clean = np.clip(np.nan_to_num(frames, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)
        try:
            heard = self.parts.beat.play(slots, clean)
        except RuntimeError as error:
            # Whatever a device says of one beat, nobody's state is known after it.
            raise EngineDead(f"{type(error).__name__}: {error}") from error
        self._stepped_s = time.monotonic()
        loud = np.sqrt(np.square(heard.pcm.astype(np.float32)).mean(1)) > AUDIBLE
        return [self._stepped(slot, row, heard, bool(loud[row])) for row, slot in enumerate(slots)]

    def _stepped(self, slot: int, row: int, heard: Heard, is_loud: bool) -> Stepped:
        memory = pack_frame(self._frames[slot], heard.records[row])
        self._frames[slot] += 1
        if self.parts.windows is not None:
            self.parts.windows.note(slot, memory)
        number = int(heard.text[row])
        is_word = number not in SILENT_TEXTS and number < self.parts.shape.text_card
        return Stepped(
            pcm=heard.pcm[row].tobytes(),
            text=self.parts.pieces.text(number) if is_word else "",
            speaks=is_word or is_loud,
            memory=memory,
        )

    # -- the device ------------------------------------------------------------------------------------------------

    def _rehearse(self) -> None:
        """Once through all that a session needs, so that no session pays for it."""
        has_room = self.parts.shape.window > LEAST_ROOM_FRAMES
        opening = {"session_id": "rehearsal", "instructions": "You are here to warm up." if has_room else ""}
        is_on_gpu = self.parts.beat.stepper.device.type == "cuda"
        first, nothing = self.opening_frames(opening), np.zeros(self.parts.shape.streams, np.int64)
        frames = MEMORY_WINDOWS * self.parts.shape.window if is_on_gpu else 8
        for memory in (b"", b"".join(pack_frame(first + number, nothing) for number in range(frames))):
            for _ in self.open(0, opening, memory):
                pass
            self.step([0], np.zeros((1, FRAME_SAMPLES), np.float32))
        self.close(0)
        self.parts.beat.reset(0, (0, 0))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What torch raises while a session is opened: too little memory is this session's, the rest everybody's."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            raise EngineFull(f"the device has no room for this session now: {error}") from error
        except RuntimeError as error:
            raise EngineDead(f"{type(error).__name__}: {error}") from error


def _standing_after(records: Tensor, made: int) -> Standing:
    """Where a slot stands after two frames, or one that counts twice."""
    last, older = records[-1], records[0]
    forced = (FREE,) * made
    heard = (tuple(last[made:].tolist()), tuple(older[made:].tolist()))
    return Standing(tuple(last[:made].tolist()), heard, forced)
