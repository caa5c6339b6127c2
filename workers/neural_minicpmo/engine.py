"""The duplex objects as a unit engine: a prompt at the start, then a second of sound in and a decision out."""

from __future__ import annotations

import inspect
import io
import os
import tempfile
import threading
import wave
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workers.engine.contract import EngineDead, EngineFacts, EngineFull, EngineRefused, Floats
from workers.engine.units import UnitDone

from . import loading
from .duplex import Duplex
from .fake import FakeDuplex

INPUT_HZ, OUTPUT_HZ = 16_000, 24_000
UNIT_MS, FIRST_MS = 1000, 1030
FAKE_OBJECTS = 2
DEFAULT_INSTRUCTIONS = "You are a helpful assistant who listens, sees and speaks."
SAMPLING = {
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "text_repetition_penalty": 1.05,
    "listen_prob_scale": 1.0,
    "max_new_speak_tokens_per_chunk": 20,
}
"""What the authors generate with; a session's ``extra_body`` may name others."""
RANGES = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (1, 1000),
    "text_repetition_penalty": (0.5, 2.0),
    "listen_prob_scale": (0.0, 10.0),
    "max_new_speak_tokens_per_chunk": (1, 200),
}
ALIASES = {"repetition_penalty": "text_repetition_penalty", "max_tokens": "max_new_speak_tokens_per_chunk"}
REFUSED = "invalid_duplex_runtime_config"


class MiniCPMEngine:
    """One loaded object for each slot."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._fake = options.get("fake") == "yes"
        self._objects = options.get("objects", "auto")
        self._device = "cpu" if self._fake else options.get("device", "cuda")
        self._weights = Path(options.get("weights", ""))
        self._compiled = options.get("compile") == "yes"
        self._window = options.get("window", "basic")
        self._seed = int(options.get("seed", "0"))
        self._duplexes: list[Duplex] = []
        self._sampling: dict[int, dict[str, Any]] = {}
        self._voices: dict[int, Path] = {}
        self._breaks: set[int] = set()
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="duplex-es-voices-")
        self.facts = self._facts(1)

    def _facts(self, objects: int) -> EngineFacts:
        return EngineFacts(
            name=loading.NAME + (" (fake)" if self._fake else ""),
            frame_ms=UNIT_MS,
            first_ms=FIRST_MS,
            input_rate_hz=INPUT_HZ,
            output_rate_hz=OUTPUT_HZ,
            slots=objects,
            window_frames=0,
            memory_bytes=0,
            device=self._device,
        )

    def load(self) -> None:
        """Load every object. Raises: loading.Missing, and as the authors' code does."""
        if self._fake:
            objects = FAKE_OBJECTS if self._objects == "auto" else int(self._objects)
            self._duplexes = [FakeDuplex(self._seed) for _ in range(objects)]
        else:
            loading.check_packages()
            loading.check_weights(self._weights)
            for _ in range(loading.how_many(self._objects, self._device)):
                try:
                    self._duplexes.append(self._loaded())
                except Exception as error:
                    if not (self._duplexes and self._objects == "auto" and is_out_of_memory(error)):
                        raise
                    print(f"there is room for {len(self._duplexes)} objects, not for more: {error}")
                    break
        self.facts = self._facts(len(self._duplexes))

    def _loaded(self) -> Duplex:
        return loading.load_duplex(self._weights, self._device, compiled=self._compiled, window=self._window)

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        """Settings, voice and history into the object of ``slot``. Raises: EngineRefused, EngineFull."""
        self._sampling[slot] = sampling_of(opening)
        yield
        voice = np.frombuffer(memory, np.float32) if memory else None
        path = None if voice is None else self._keep_voice(slot, voice)
        prefix, suffix = prompt_of(opening, with_voice=voice is not None)
        duplex = self._duplexes[slot]
        duplex.clear_break_event()
        try:
            duplex.prepare(
                prefix_system_prompt=prefix, suffix_system_prompt=suffix, ref_audio=voice, prompt_wav_path=path
            )
        except Exception as error:
            if is_out_of_memory(error):
                raise EngineFull(f"no memory of the device is left for this session: {error}") from error
            raise

    def unit(self, slot: int, pcm: Floats, frames: Sequence[bytes], *, forced: bool) -> UnitDone:
        """One unit through the object of ``slot``. A break that comes meanwhile makes it listen. Raises: EngineDead."""
        duplex = self._duplexes[slot]
        try:
            duplex.streaming_prefill(
                audio_waveform=np.array(pcm, np.float32), frame_list=self._pictures(frames), max_slice_nums=1
            )
            found = duplex.streaming_generate(**self._settings(slot, duplex, forced=forced))
            if callable(finalize := getattr(duplex, "finalize_unit", None)):
                finalize()
        except Exception as error:
            if "CUDA error" in str(error):
                raise EngineDead(str(error)) from error
            raise
        with self._lock:
            is_broken = slot in self._breaks
        if forced or is_broken or found.get("is_listen", True):
            return UnitDone(b"", "", listens=True, ends=bool(found.get("end_of_turn")))
        sound = int16_of(found.get("audio_waveform"))
        return UnitDone(
            sound,
            str(found.get("text") or ""),
            listens=False,
            ends=bool(found.get("end_of_turn")),
            stages=stages_of(found, len(sound) // 2),
        )

    def begin(self, slot: int) -> None:
        """Let the next unit of ``slot`` be generated, whatever was broken off before it."""
        with self._lock:
            self._breaks.discard(slot)
        self._duplexes[slot].clear_break_event()

    def interrupt(self, slot: int) -> None:
        """Break off the unit that is being generated; the next one is taken in as ever."""
        with self._lock:
            self._breaks.add(slot)
        self._duplexes[slot].set_break_event()

    def close(self, slot: int) -> None:
        """Forget the session: its voice is removed from the disk. Idempotent."""
        self._duplexes[slot].set_session_stop()
        self._sampling.pop(slot, None)
        if path := self._voices.pop(slot, None):
            path.unlink(missing_ok=True)

    def _settings(self, slot: int, duplex: Duplex, *, forced: bool) -> dict[str, Any]:
        """What this object's ``streaming_generate`` takes of the session's settings: older code knows fewer."""
        wanted = {
            "prompt_wav_path": str(self._voices[slot]) if slot in self._voices else None,
            "decode_mode": "sampling",
            "force_listen_override": forced,
            **self._sampling[slot],
        }
        taken = inspect.signature(duplex.streaming_generate).parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
            return wanted
        return {name: value for name, value in wanted.items() if name in taken}

    def _keep_voice(self, slot: int, voice: Floats) -> str:
        """The voice as a WAV file that only this process's user can read: the authors' code wants a path."""
        path = Path(self._folder.name) / f"{slot}.wav"
        self._voices[slot] = path
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        with file, wave.open(file, "wb") as wav:
            wav.setnchannels(1)
            wav.setsampwidth(2)
            wav.setframerate(INPUT_HZ)
            wav.writeframes(int16_of(voice))
        return str(path)

    def _pictures(self, frames: Sequence[bytes]) -> list[Any] | None:
        if not frames:
            return None
        if self._fake:
            return list(frames)
        from PIL import Image

        found = []
        for frame in frames:
            try:
                found.append(Image.open(io.BytesIO(frame)).convert("RGB"))
            except Exception as error:  # Each decoder has its own, and a picture that is too large another.
                print(f"a picture of {len(frame)} bytes cannot be read and is left out: {error}")
        return found or None


def make(options: Mapping[str, str]) -> MiniCPMEngine:
    """The engine, not loaded yet."""
    return MiniCPMEngine(options)


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device has no memory left: torch's own exception, which is not imported for the double."""
    return type(error).__name__ == "OutOfMemoryError"


def sampling_of(opening: Mapping[str, Any]) -> dict[str, Any]:
    """How a session is generated: the authors' settings, but what it names. Raises: EngineRefused."""
    found: dict[str, Any] = dict(SAMPLING)
    named = {ALIASES.get(key, key): (key, value) for key, value in opening.get("extra_body", {}).items()}
    if opening.get("temperature") is not None:
        named["temperature"] = ("temperature", opening["temperature"])
    for name, (least, most) in RANGES.items():
        if name not in named:
            continue
        key, value = named[name]
        whole = isinstance(SAMPLING[name], int)
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else int | float)
            or not least <= value <= most
        ):
            param = "session.temperature" if key == "temperature" else f"session.extra_body.{key}"
            kind = "a whole number" if whole else "a number"
            raise EngineRefused(REFUSED, f"{param} must be {kind} from {least} to {most}.", param)
        found[name] = value
    return found


def prompt_of(opening: Mapping[str, Any], *, with_voice: bool) -> tuple[str, str]:
    """What comes before the voice and what comes after it: instructions, then the conversation so far as text."""
    instructions = (opening.get("instructions") or DEFAULT_INSTRUCTIONS).replace("<|", "< |")
    turns = [(role, text) for role, text in opening.get("history", ())]
    first = opening.get("extra_body", {}).get("duplex_initial_user_text")
    if isinstance(first, str) and first and not turns:
        turns.append(("user", first))
    # The first unit follows right behind the end of the last of them, as in what the model was trained on.
    said = "".join(f"\n<|im_start|>{role}\n{text.replace('<|', '< |')}<|im_end|>" for role, text in turns)
    prefix = f"<|im_start|>system\n{instructions}\n"
    if with_voice:
        return f"{prefix}<|audio_start|>", f"<|audio_end|><|im_end|>{said}"
    return prefix, f"<|im_end|>{said}"


def stages_of(found: Mapping[str, Any], samples: int) -> dict[str, dict[str, Any]]:
    """What the object tells of its three networks: tokens, and its seconds as milliseconds; empty where it tells none.

    The first makes words, the second codes of speech, the third sound of those.
    """
    words, codes = _figure(found, "n_tokens"), _figure(found, "n_tts_tokens")
    llm_ms, wave_ms = _figure(found, "cost_llm") * 1000, _figure(found, "cost_token2wav") * 1000
    tts_ms = (_figure(found, "cost_tts_prep") + _figure(found, "cost_tts")) * 1000
    if not (words or codes or llm_ms or tts_ms or wave_ms):
        return {}
    thinker = {"num_tokens_out": words, "stage_gen_time_ms": llm_ms, "output_unit_count": 1}
    if words:
        thinker["vllm_tpot_ms"] = llm_ms / words
    talker = {"num_tokens_out": codes, "stage_gen_time_ms": tts_ms, "output_unit_count": 1}
    sound = {"audio_generated_frames": samples, "audio_duration_s": samples / OUTPUT_HZ, "output_unit_count": 1}
    return {
        "0": {**thinker, "final_output_type": "text"},
        "1": {**talker, "output_unit_type": "stream"},
        "2": {**sound, "stage_gen_time_ms": wave_ms, "final_output_type": "audio"},
    }


def _figure(found: Mapping[str, Any], name: str) -> float:
    value = found.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def int16_of(samples: Any) -> bytes:
    """Samples in [-1, 1], an array or a tensor of any shape, as int16; nothing as nothing."""
    if samples is None:
        return b""
    if hasattr(samples, "detach"):
        samples = samples.detach().float().cpu().numpy()
    flat = np.asarray(samples, np.float32).reshape(-1)
    return np.clip(np.rint(flat * 32768.0), -32768, 32767).astype("<i2").tobytes()
