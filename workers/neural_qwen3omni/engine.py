"""Thinker, talker and sound as one engine that is asked turn by turn: each step gives every turn a word and a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused
from workers.engine.turns import TurnPiece

from . import loading
from .prompt import Markers, Prompt, Prompter
from .sampling import FRAMES, RESIDUALS, WORDS, Sampling, drawn, penalised, seed_of, uniforms
from .talker import Talker
from .thinker import RATE_HZ, Thinker
from .turn import Turn, Wish, pack_memory, told_of, unpack_memory
from .wave import Heard, Sounder
from .words import Written, calls, spoken, written

FRAME_MS, OUTPUT_HZ = 80, 24_000
CHUNK_TOKENS = 512
"""So much of a prompt is read between two steps."""
FIRST_FRAMES, NEXT_FRAMES = 4, 8
"""How many frames become sound at once: few at first, so that it begins soon."""
FRAMES_PER_WORD = 3
"""Words are told no faster than they are likely to be said: the talker reads far ahead of what it says."""
RESIDUAL_SAMPLING = Sampling(1.0, 50, 0.8)
GREEDY = Sampling(0.0, 1, 1.0)
DEFAULT_VOICE = "ethan"


class Qwen3OmniEngine:
    """See ``TurnEngine``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._random = options.get("weights") == "random"
        self._weights = Path(options.get("weights", ""))
        self._device = options.get("device", "cuda")
        self._slots = options.get("slots", "auto")
        self._context = int(options.get("context", "8192"))
        self._most_words = int(options.get("max_tokens", "1024"))
        self._most_frames = int(float(options.get("longest_answer_s", "120")) * 1000) // FRAME_MS
        self._seed = int(options.get("seed", "0"))
        hot = float(options.get("talker_temperature", "0.9"))
        self._talking = Sampling(hot, 50, 1.0, 1.05)
        self._residual = RESIDUAL_SAMPLING if hot > 0 else GREEDY
        self._turns: dict[int, Turn] = {}
        if "threads" in options:
            torch.set_num_threads(int(options["threads"]))
        self.facts = self._facts(1)

    def _facts(self, slots: int) -> EngineFacts:
        return EngineFacts(
            name=loading.NAME + (" (random)" if self._random else ""),
            frame_ms=FRAME_MS,
            input_rate_hz=RATE_HZ,
            output_rate_hz=OUTPUT_HZ,
            slots=slots,
            window_frames=0,
            memory_bytes=0,
            device=self._device,
        )

    def load(self) -> None:
        """See ``TurnEngine``. Raises: loading.Missing, and as transformers do."""
        if self._random:
            loaded = loading.load_random(self._device, self._seed)
        else:
            loaded = loading.load_published(self._weights, self._device)
        self.build(loaded)
        self._warm_up()

    def build(self, loaded: loading.Loaded) -> None:
        """Take over what was loaded, and the memory for all slots."""
        config = loaded.model.config
        slots = loading.how_many(
            self._slots, config, context=self._context, frames=self._most_frames, device=self._device
        )
        self.facts = self._facts(slots)
        self._vocabulary = loaded.vocabulary
        self._thinker = Thinker(
            loaded.model.thinker,
            loaded.extractor,
            accept_layer=config.talker_config.accept_hidden_layer,
            slots=slots,
            capacity=self._context,
        )
        frames = self._context + self._most_frames + 16
        self._talker = Talker(loaded.model.talker, config, slots=slots, capacity=frames)
        self._sounder = Sounder(loaded.model.code2wav)
        self._prompter = Prompter(self._vocabulary, _markers(config, self._vocabulary), _window(config))

    def _warm_up(self) -> None:
        """One short turn aloud, with a sound in it."""
        asked = {"messages": [{"role": "user", "text": "hello", "sound": 0}], "settings": {"max_tokens": 4}}
        for _ in self.ask(0, asked, [bytes(RATE_HZ)], b""):
            pass
        for _ in range(2 * FIRST_FRAMES):
            if self.step([0])[0].ends:
                break
        self.drop(0)

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        """See ``TurnEngine``. ``asked`` holds ``messages``, and may hold ``instructions``, ``tools``, ``settings``,

        ``aloud``, ``voice`` and ``seed``.
        """
        with _faults():
            yield from self._ask(slot, asked, sounds, memory)

    @torch.inference_mode()
    def _ask(self, slot: int, asked: Mapping[str, Any], sounds: Sequence[bytes], memory: bytes) -> Iterator[None]:
        wish = self._wish(asked)
        prompt = self._prompter.prompt(
            asked, [len(sound) // 2 for sound in sounds], room=self._context - wish.most_words
        )
        ids, codes = unpack_memory(memory, self._talker.groups)
        self._thinker.rows.cut(slot)
        self._talker.rows.cut(slot)
        embeds = self._thinker.embedded(prompt.ids)
        heard = torch.tensor([number == self._prompter.audio for number in prompt.ids], device=embeds.device)
        vectors = []
        for number in prompt.sounds:
            vectors.append(self._thinker.heard(sounds[number]))
            yield
        if vectors:
            embeds[heard] = torch.cat(vectors).to(embeds.dtype)
        turn = self._turn(wish, len(prompt.ids), ids)
        more = self._thinker.embedded(ids) if ids and turn.is_writing else embeds[:0]
        hidden = []
        for chunk in torch.cat((embeds, more)).split(CHUNK_TOKENS):
            chances, accepted = self._thinker.read(slot, chunk)
            hidden.append(accepted)
            yield
        turn = replace(turn, chances=chances)
        if wish.aloud:
            yield from self._open_talker(slot, prompt, embeds, torch.cat(hidden)[: len(embeds)], heard, wish)
            turn = self._respoken(slot, replace(turn, is_speaking=True), codes)
        told, sound = told_of(asked)
        self._turns[slot] = replace(turn, told=told, owed=turn.owed[sound:])

    def _turn(self, wish: Wish, prompt_tokens: int, ids: Sequence[int]) -> Turn:
        """A turn that has written ``ids``."""
        is_over = bool(ids) and (ids[-1] in self._vocabulary.stops or len(ids) >= wish.most_words)
        cut = is_over and ids[-1] not in self._vocabulary.stops
        return Turn(wish, prompt_tokens, written(ids, self._vocabulary), is_writing=not is_over, was_cut=cut)

    def _wish(self, asked: Mapping[str, Any]) -> Wish:
        settings = asked.get("settings", {})
        voice = str(asked.get("voice") or DEFAULT_VOICE).lower()
        speaker = self._talker.speakers.get(voice)
        if speaker is None:
            names = ", ".join(sorted(self._talker.speakers))
            raise EngineRefused(
                "invalid_duplex_runtime_config", f"session.voice: {voice!r} is not one of {names}.", "session.voice"
            )
        sampling = Sampling(
            float(settings.get("temperature", 0.6)),
            int(settings.get("top_k", 20)),
            float(settings.get("top_p", 0.95)),
            float(settings.get("repetition_penalty", 1.0)),
        )
        most = min(int(settings.get("max_tokens", self._most_words)), self._context // 2)
        seed = seed_of(self._seed, asked.get("seed", ""))
        return Wish(seed, sampling, most, bool(asked.get("aloud", True)), speaker)

    def _open_talker(
        self, slot: int, prompt: Prompt, embeds: Tensor, hidden: Tensor, heard: Tensor, wish: Wish
    ) -> Iterator[None]:
        """Let the talker read what callers said, and how speech begins."""
        user = torch.tensor(prompt.is_user, device=embeds.device)
        special = self._thinker.embedded(self._talker.openers(self._vocabulary.encode("\n")[0]))
        opening = self._talker.opening(embeds[user], hidden[user], heard[user], special, wish.speaker)
        for chunk in opening.split(CHUNK_TOKENS):
            self._talker.read(slot, chunk)
            yield

    def _respoken(self, slot: int, turn: Turn, codes: Sequence[tuple[int, ...]]) -> Turn:
        """``turn`` behind the frames it had already spoken; the sound of all but the newest is owed."""
        if not codes:
            return turn
        frames = self._talker.frame(torch.tensor(codes, device=self._thinker.device))
        texts = [self._said_with(turn, place) for place in range(len(codes))]
        words = self._talker.projected(self._thinker.embedded([text or 0 for text in texts]))
        self._talker.read(slot, torch.cat((self._talker.first[None], frames[:-1])) + words)
        turn = replace(turn, codes=tuple(codes), frame=frames[-1], is_speaking=len(codes) < self._most_frames)
        if len(codes) == 1:
            return turn
        sound, heard = self._sounder.heard(Heard(), _columns(codes[:-1], self._thinker.device))
        return replace(turn, heard=heard, sounded=len(codes) - 1, owed=_int16(sound))

    # -- stepping --------------------------------------------------------------------------------------------------

    def step(self, slots: Sequence[int]) -> list[TurnPiece]:
        """See ``TurnEngine``."""
        marks = [(self._thinker.rows.length(slot), self._talker.rows.length(slot)) for slot in slots]
        try:
            with _faults(), torch.inference_mode():
                before = {slot: self._turns[slot] for slot in slots}
                after = self._spoken(before, self._written(before))
                told = [self._piece(before[slot], after[slot]) for slot in slots]
        except Exception:
            for slot, (words, frames) in zip(slots, marks, strict=True):
                self._thinker.rows.cut(slot, words)
                self._talker.rows.cut(slot, frames)
            raise
        for slot, (turn, _) in zip(slots, told, strict=True):
            self._turns[slot] = turn
        return [piece for _, piece in told]

    def _written(self, turns: Mapping[int, Turn]) -> dict[int, Turn]:
        """Each turn that is being written with one more word."""
        after = dict(turns)
        writing = [slot for slot, turn in turns.items() if turn.is_writing]
        if not writing:
            return after
        chances = torch.stack([turns[slot].chances for slot in writing])
        for row, slot in enumerate(writing):
            penalised(chances, row, turns[slot].written.ids, turns[slot].wish.sampling.repetition_penalty)
        dice = [uniforms(turns[slot].wish.seed, WORDS, len(turns[slot].written.ids))[0] for slot in writing]
        ids = drawn(chances, dice, [turns[slot].wish.sampling for slot in writing]).tolist()
        for slot, number in zip(writing, ids, strict=True):
            turn = turns[slot]
            text: Written = turn.written.with_id(number, self._vocabulary)
            stops = number in self._vocabulary.stops
            cut = not stops and len(text.ids) >= turn.wish.most_words
            after[slot] = replace(turn, written=text, is_writing=not (stops or cut), was_cut=cut)
        going = [(slot, number) for slot, number in zip(writing, ids, strict=True) if after[slot].is_writing]
        if going:
            found = self._thinker.step([slot for slot, _ in going], [number for _, number in going])
            for row, (slot, _) in enumerate(going):
                after[slot] = replace(after[slot], chances=found[row])
        return after

    def _said_with(self, turn: Turn, frame: int) -> int | None:
        """The text id that goes into the ``frame``-th frame; ``None`` while it is not known yet, or never."""
        said, called = spoken(turn.written.ids, self._vocabulary)
        ended, nothing = self._talker.after_text
        if frame < len(said):
            return said[frame]
        if turn.is_writing and not called:
            return None
        if not said:
            return None
        return ended if frame == len(said) else nothing

    def _spoken(self, before: Mapping[int, Turn], after: dict[int, Turn]) -> dict[int, Turn]:
        """Each turn that is spoken with one more frame, as far as there are words for it."""
        speaking = []
        for slot, turn in before.items():
            if not turn.is_speaking:
                continue
            text = self._said_with(turn, len(turn.codes))
            if text is not None:
                speaking.append((slot, text))
            elif not after[slot].is_writing and not turn.is_writing:
                after[slot] = replace(after[slot], is_speaking=False)
        if not speaking:
            return after
        slots = [slot for slot, _ in speaking]
        words = self._talker.projected(self._thinker.embedded([text for _, text in speaking]))
        frames = torch.stack([before[s].frame if before[s].codes else self._talker.first for s in slots])
        hidden, chances = self._talker.step(slots, frames + words)
        for row, slot in enumerate(slots):
            said = [frame[0] for frame in before[slot].codes]
            penalised(chances, row, said, self._talking.repetition_penalty)
        dice = [uniforms(before[slot].wish.seed, FRAMES, len(before[slot].codes))[0] for slot in slots]
        first = drawn(chances, dice, [self._talking] * len(slots))
        return self._framed(before, after, slots, hidden, first)

    def _framed(
        self, before: Mapping[int, Turn], after: dict[int, Turn], slots: list[int], hidden: Tensor, first: Tensor
    ) -> dict[int, Turn]:
        """The frames that grow from their ``first`` codes; where that is the end, there is none."""
        ends = [number == self._talker.end for number in first.tolist()]
        for slot, is_end in zip(slots, ends, strict=True):
            if is_end:
                after[slot] = replace(after[slot], is_speaking=False)
        rows = [row for row, is_end in enumerate(ends) if not is_end]
        if not rows:
            return after
        count = self._talker.groups - 1
        dice = [uniforms(before[slots[r]].wish.seed, RESIDUALS, len(before[slots[r]].codes), count) for r in rows]
        where = torch.tensor(rows, device=hidden.device)
        codes = self._talker.residuals(
            hidden[where], first[where], torch.tensor(dice, device=hidden.device), [self._residual] * len(rows)
        )
        vectors = self._talker.frame(codes)
        for place, (row, frame) in enumerate(zip(rows, codes.tolist(), strict=True)):
            slot = slots[row]
            turn = after[slot]
            found = (*turn.codes, tuple(frame))
            cut = len(found) >= self._most_frames
            after[slot] = replace(
                turn, codes=found, frame=vectors[place], is_speaking=not cut, was_cut=turn.was_cut or cut
            )
        return after

    def _piece(self, before: Turn, turn: Turn) -> tuple[Turn, TurnPiece]:
        """What is told of a step, and the turn when it has been."""
        ids = turn.written.ids[len(before.written.ids) :]
        frames = turn.codes[len(before.codes) :]
        memory = pack_memory(ids, frames) if ids or frames else b""
        turn, pcm = self._sounded(turn)
        silent = turn.is_over or not turn.wish.aloud
        text = turn.written.text(None if silent else turn.sounded // FRAMES_PER_WORD)[turn.told :]
        turn = replace(turn, told=turn.told + len(text))
        drew = (len(ids), len(frames))
        piece = TurnPiece(
            text=text, pcm=pcm, memory=memory, audio_metadata=_metadata(pcm) if pcm else None, drew=drew
        )
        if turn.is_over:
            piece = replace(
                piece,
                ends="length" if turn.was_cut else "stop",
                input_tokens=turn.prompt_tokens,
                output_tokens=len(turn.written.ids),
                calls=calls(turn.written.ids, self._vocabulary),
            )
        return turn, piece

    def _sounded(self, turn: Turn) -> tuple[Turn, bytes]:
        """The sound of the frames that wait, if they are enough for a stretch or the last.

        Until then the newest one waits on: the end, when it comes, has a sound for the words that are left.
        """
        waiting = turn.codes[turn.sounded :]
        if not turn.is_over:
            waiting = waiting[:-1] if len(waiting) > (NEXT_FRAMES if turn.sounded else FIRST_FRAMES) else ()
        pcm = turn.owed
        if waiting:
            sound, heard = self._sounder.heard(turn.heard, _columns(waiting, self._thinker.device))
            turn = replace(turn, heard=heard, sounded=turn.sounded + len(waiting))
            pcm += _int16(sound)
        return replace(turn, owed=b""), pcm

    def drop(self, slot: int) -> None:
        """See ``TurnEngine``."""
        self._turns.pop(slot, None)
        self._thinker.rows.cut(slot)
        self._talker.rows.cut(slot)


def make(options: Mapping[str, str]) -> Qwen3OmniEngine:
    """The engine, not loaded yet."""
    return Qwen3OmniEngine(options)


@contextmanager
def _faults() -> Iterator[None]:
    """What torch says of the device, in the words of the engine's contract."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise EngineFull("the device has no memory left for this turn") from error
    except RuntimeError as error:
        if "CUDA error" in str(error):
            raise EngineDead(str(error)) from error
        raise


def _markers(config: Any, vocabulary: Any) -> Markers:
    thinker = config.thinker_config
    return Markers(
        im_start=config.im_start_token_id,
        im_end=config.im_end_token_id,
        system=config.system_token_id,
        user=config.user_token_id,
        assistant=config.assistant_token_id,
        audio=thinker.audio_token_id,
        audio_start=thinker.audio_start_token_id,
        audio_end=getattr(thinker, "audio_end_token_id", thinker.audio_start_token_id + 1),
    )


def _window(config: Any) -> int:
    return int(config.thinker_config.audio_config.n_window)


def _columns(codes: Sequence[Sequence[int]], device: Any) -> Tensor:
    """Frames as (groups, frames)."""
    return torch.tensor([list(frame) for frame in codes], device=device).T


def _int16(sound: Tensor) -> bytes:
    samples: Any = (sound * 32768.0).round().clamp(-32768, 32767).cpu().numpy()
    return np.asarray(samples, "<i2").tobytes()


def _metadata(pcm: bytes) -> dict[str, Any]:
    return {"format": "pcm", "sample_rate_hz": OUTPUT_HZ, "frame_count": len(pcm) // 2, "channels": 1}
