"""Nemotron VoiceChat behind the engine's contract: prompts, beats, words forced in, and going on from a memory."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused, Floats, Stepped

from . import loading
from .ear import Ear
from .memory import MemoryBroken, Remembered, Samples, pack_frame, unpack_frames
from .mind import Mind
from .options import (
    FRAME_MS,
    FRAME_SAMPLES,
    INPUT_HZ,
    NAME,
    OUTPUT_HZ,
    RECORD_BYTES,
    EngineOptions,
    read_engine_options,
)
from .sampling import chosen, die, seed_of
from .vocabulary import prompt_ids
from .words import Speller

REFUSED = "invalid_duplex_runtime_config"
SCALE = 32_768.0
SPELLED_AGAIN = 64
"""A letter may be torn over so many frames, with pauses in it."""


@dataclass(slots=True)
class _Session:
    """Where one slot stands: the next frame's number, the two tokens written last, and what is still to be forced."""

    seed: int
    said: Speller
    called: Speller
    text: int
    function: int
    frame: int = 0
    forced: deque[int] = field(default_factory=deque)


def make(options: Mapping[str, str]) -> NemotronEngine:
    """The engine for ``options``, not loaded yet. Raises: ValueError naming the option."""
    return NemotronEngine(read_engine_options(options))


class NemotronEngine:
    """An ``InformedEngine``: 16 kHz in, frames of 80 ms, and no sound out: ``Stepped.pcm`` is always empty.

    Sound is heard in 16 bits, so that what is remembered of it is what was heard. A slot opened with the memory of a
    session from its first frame on goes on with the tokens that the lost one would have given, up to rounding. A
    session longer than what is remembered goes on from its prompt and the frames that are.
    """

    facts: EngineFacts

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._sessions: dict[int, _Session] = {}
        self.facts = EngineFacts(
            name=NAME + (" (random)" if options.weights == "random" else ""),
            frame_ms=FRAME_MS,
            input_rate_hz=INPUT_HZ,
            output_rate_hz=OUTPUT_HZ,
            slots=0,
            window_frames=options.memory_frames,
            memory_bytes=RECORD_BYTES,
        )

    def load(self) -> None:
        """Load and rehearse. Raises: loading.Missing, published.Unfit, and as torch does."""
        if self.options.threads:
            torch.set_num_threads(self.options.threads)
        self.build(loading.load(self.options))
        self._rehearse()
        # Nothing that was loaded will ever be garbage: a collection must not look at it in the middle of a beat.
        gc.collect()
        gc.freeze()

    def build(self, loaded: loading.Loaded) -> None:
        """Take over what was loaded, and the memory for all slots."""
        slots = loading.how_many(self.options, loaded)
        self._vocabulary = loaded.vocabulary
        self._ear = Ear(loaded.encoder, loaded.projection, slots)
        self._mind = Mind(
            loaded.language,
            loaded.function_head,
            loaded.shape,
            slots=slots,
            capacity=self.options.context_frames,
        )
        self._quiet = {loaded.vocabulary.pad, loaded.vocabulary.eos}
        device = loaded.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
        self.facts = replace(self.facts, slots=slots, device=name)

    def _rehearse(self) -> None:
        """Once through all that a session needs, so that no session pays for it."""
        pad = self._vocabulary.pad
        silence = np.zeros(FRAME_SAMPLES, np.int16)
        memory = b"".join(pack_frame(frame, pad, pad, silence) for frame in range(self.options.chunk_frames))
        prompt = "hello"[: self.options.prompt_tokens - 2]
        for before in (memory, b""):
            for _ in self.open(0, {"prompt": prompt, "session_id": "rehearsal"}, before):
                pass
            self.step([0], np.zeros((1, FRAME_SAMPLES), np.float32))
        self.close(0)

    # -- a session -------------------------------------------------------------------------------------------------

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        """See ``FrameEngine``. ``opening`` holds ``prompt``, or ``instructions`` if the prompt is no more than that."""
        prompt = prompt_ids(self._vocabulary, str(opening.get("prompt") or opening.get("instructions") or ""))
        room = self.options.prompt_tokens
        if len(prompt) > room:
            message = f"session.instructions: they and the tools are {len(prompt)} tokens, and may be {room}"
            raise EngineRefused(REFUSED, message, "session.instructions")
        try:
            remembered = unpack_frames(memory, self.options.context_frames - len(prompt) - 1)
            self._check(remembered)
        except MemoryBroken as error:
            raise EngineRefused("runtime_open_failed", f"the session cannot be continued from {error}") from None
        seed = seed_of(self.options.seed, opening.get("session_id", ""), opening.get("incarnation", 0))
        return self._opened(slot, prompt, remembered, seed)

    def _check(self, remembered: Remembered) -> None:
        most = self._mind.words
        if len(remembered) and max(int(remembered.text.max()), int(remembered.function.max())) >= most:
            raise MemoryBroken("a memory of another model's tokens")

    def _opened(self, slot: int, prompt: list[int], remembered: Remembered, seed: int) -> Iterator[None]:
        """Read what is known, a piece between two yields; always cut alike, so that the same is the same bit by bit."""
        chunk, pad = self.options.chunk_frames, self._vocabulary.pad
        said = Speller(self._vocabulary, shows_special=False)
        called = Speller(self._vocabulary, shows_special=True)
        session = _Session(seed, said, called, pad, pad)
        with _faults():
            self._ear.forget(slot)
            self._mind.forget(slot, len(prompt))
        for at in range(0, len(prompt), chunk):
            ids = prompt[at : at + chunk]
            with _faults():
                silent = [pad] * len(ids)
                self._mind.read(slot, self._mind.fused(silent, self._mind.embedded(ids), silent))
            yield
        for at in range(0, len(remembered), chunk):
            with _faults():
                self._reread(slot, session, remembered, at, min(at + chunk, len(remembered)))
            yield
        for text in remembered.text[-SPELLED_AGAIN:].tolist():
            said.text(text)
        for function in remembered.function[-SPELLED_AGAIN:].tolist():
            called.text(function)
        session.frame = remembered.frame + len(remembered)
        self._sessions[slot] = session

    def _reread(self, slot: int, session: _Session, remembered: Remembered, start: int, end: int) -> None:
        """Hear frames again, and take what was written in them as written."""
        sound = torch.from_numpy(remembered.sound[start:end].reshape(-1).astype(np.float32) / SCALE)
        heard = self._ear.read(slot, sound.to(self._mind.device))
        text, function = remembered.text[start:end].tolist(), remembered.function[start:end].tolist()
        before = [session.text, *text[:-1]], [session.function, *function[:-1]]
        self._mind.read(slot, self._mind.fused(before[0], heard, before[1]))
        session.text, session.function = text[-1], function[-1]

    def inform(self, slot: int, text: str, told: int = 0) -> None:
        """See ``InformedEngine``. While something is forced nothing is said: it is silent in those frames."""
        session = self._session(slot)
        ids = self._vocabulary.encode(text)[told:]
        most = self.options.pending_tokens
        if len(session.forced) + len(ids) > most:
            raise EngineFull(f"{len(session.forced)} tokens wait to be taken in, {len(ids)} more exceed {most}")
        session.forced.extend(ids)

    def close(self, slot: int) -> None:
        """See ``FrameEngine``."""
        self._sessions.pop(slot, None)

    def _session(self, slot: int) -> _Session:
        if slot not in self._sessions:
            raise ValueError(f"slot {slot} is not open")
        return self._sessions[slot]

    # -- the beat --------------------------------------------------------------------------------------------------

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        """See ``FrameEngine``. A sample that is no number is silence; one beyond full scale is full scale."""
        if frames.shape != (len(slots), FRAME_SAMPLES):
            raise ValueError(f"a beat of {frames.shape} for {len(slots)} slots")
        sessions = [self._session(slot) for slot in slots]
        sound = _heard(frames)
        try:
            with torch.inference_mode():
                text, function = self._written(slots, sessions, sound)
        except Exception as error:
            # Too little memory among them: some have heard this frame, and nobody knows who.
            raise EngineDead(f"{type(error).__name__}: {error}") from error
        return [
            self._stepped(session, sound[row], text[slot], function[slot])
            for row, (slot, session) in enumerate(zip(slots, sessions, strict=True))
        ]

    def _written(
        self, slots: Sequence[int], sessions: Sequence[_Session], sound: Samples
    ) -> tuple[list[int], list[int]]:
        """The tokens of both channels, for every slot; those of slots that stand still mean nothing."""
        every, pad = self.facts.slots, self._vocabulary.pad
        rows = np.zeros((every, FRAME_SAMPLES), np.float32)
        rows[list(slots)] = sound.astype(np.float32) / SCALE
        before = [[pad] * every, [pad] * every]
        dice = [0.5] * every
        for slot, session in zip(slots, sessions, strict=True):
            before[0][slot], before[1][slot] = session.text, session.function
            dice[slot] = die(session.seed, session.frame)
        heard = self._ear.step(slots, torch.from_numpy(rows).to(self._mind.device))
        text, function = self._mind.step(slots, self._mind.fused(before[0], heard, before[1]))
        words = chosen(text, dice, temperature=self.options.temperature, top_k=self.options.top_k)
        both: list[list[int]] = torch.stack((words, function.argmax(-1))).tolist()
        return both[0], both[1]

    def _stepped(self, session: _Session, sound: Samples, text: int, function: int) -> Stepped:
        is_forced = bool(session.forced)
        if is_forced:
            text, function = self._vocabulary.pad, session.forced.popleft()
        memory = pack_frame(session.frame, text, function, sound)
        session.frame, session.text, session.function = session.frame + 1, text, function
        return Stepped(
            pcm=b"",
            text=session.said.text(text),
            speaks=text not in self._quiet,
            memory=memory,
            function=session.called.text(function),
            forced=is_forced,
        )


def _heard(frames: Floats) -> Samples:
    """Sound in 16 bits."""
    clean = np.nan_to_num(frames, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.clip(np.rint(clean * SCALE), -SCALE, SCALE - 1).astype(np.int16)


@contextmanager
def _faults() -> Iterator[None]:
    """What torch raises while a session is opened: too little memory is that session's, the rest everybody's."""
    try:
        with torch.inference_mode():
            yield
    except torch.OutOfMemoryError as error:
        raise EngineFull(f"the device has no memory for this now: {error}") from error
    except RuntimeError as error:
        raise EngineDead(f"{type(error).__name__}: {error}") from error
