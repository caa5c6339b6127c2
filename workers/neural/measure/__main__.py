"""Measures the frame model on this machine and writes one JSON file; what is done so far is there if it is cut short.

python -m workers.neural.measure --out result.json --slots 80 --int8-slots 150 --seconds 45
python -m workers.neural.measure --out result.json --shape tiny --slots 2 --int8-slots 2 --seconds 1
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..moshi.shape import PERSONAPLEX, SHAPES, TINY, MoshiShape
from ..personaplex.aging import age
from ..personaplex.building import stepper_class
from ..personaplex.engine import PersonaPlexEngine
from ..personaplex.options import EngineOptions
from .checks import Bench, against_oracle, isolation, noisy_model, recording, replay
from .pace import Plan, paced, rebuild_all, rebuild_times
from .timing import finished, memory_gb, surroundings, timed

PARTS = ("checks", "bf16", "int8", "codec")
CHECKED_LAYERS = 3


class Report:
    """The findings, on disk after each of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began_s = time.perf_counter()
        self.found: dict[str, Any] = {}

    def add(self, name: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` and note what it gives, or how it failed."""
        began_s = time.perf_counter()
        try:
            value = work()
        except Exception as error:  # one part that fails must not cost the others
            value = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        took_s = round(time.perf_counter() - began_s, 1)
        self.found[name] = value
        self.found["total_s"] = round(time.perf_counter() - self._began_s, 1)
        self._path.write_text(json.dumps(self.found, indent=1) + "\n")
        print(f"[{self.found['total_s']:7.1f} s] {name} ({took_s} s): {json.dumps(value)}", flush=True)
        return value


def main(arguments: list[str]) -> int:
    """The exit status: 0 unless something failed or was found wrong."""
    asked = _asked(arguments)
    torch.set_grad_enabled(False)
    if asked.threads:
        torch.set_num_threads(asked.threads)
    device = torch.device("cuda" if torch.cuda.is_available() and asked.device != "cpu" else "cpu")
    report = Report(Path(asked.out))
    report.add("surroundings", lambda: surroundings(device))
    if "checks" in asked.parts:
        _check(report, asked, device)
    if "bf16" in asked.parts:
        given, asked.path = asked.path, _path_of(report, asked.path, "")
        _measure(report, "bf16", asked, device, slots=asked.slots, kv="auto")
        asked.path = given
    if "int8" in asked.parts:
        asked.path = _path_of(report, asked.path, "int8")
        _measure(report, "int8", asked, device, slots=asked.int8_slots, kv="int8")
    if "codec" in asked.parts:
        _codec_alone(report, asked, device)
    return int("failed" in json.dumps(report.found))


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.neural.measure", description=__doc__)
    parser.add_argument("--out", required=True, help="where the JSON goes")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="personaplex")
    parser.add_argument("--slots", default="80", help="sessions in bf16; a number or auto")
    parser.add_argument("--int8-slots", default="150", help="sessions with an int8 ring; a number or auto")
    parser.add_argument("--window-frames", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=45, help="of each paced run")
    parser.add_argument("--steps", type=int, default=100, help="of each timing without a pace")
    parser.add_argument("--path", default="auto", choices=["auto", "plain", "fused"])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu"])
    parser.add_argument("--chunk-frames", type=int, default=512)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--parts", default=",".join(PARTS), type=lambda text: text.split(","), help="which, in commas")
    return parser.parse_args(arguments)


# -- right or wrong ------------------------------------------------------------------------------------------------


def _check(report: Report, asked: argparse.Namespace, device: torch.device) -> None:
    shape = SHAPES[asked.shape].with_window(asked.window_frames)
    if shape.layers > CHECKED_LAYERS:
        shape = replace(shape, layers=CHECKED_LAYERS)
    kind = stepper_class(asked.path, device)
    report.add("stepper", lambda: kind.__name__)
    _check_in(report, "fp32", shape, torch.float32, kind, device)
    if device.type == "cuda":
        _check_in(report, "bf16", shape, torch.bfloat16, kind, device)


def _check_in(
    report: Report, name: str, shape: MoshiShape, dtype: torch.dtype, kind: type, device: torch.device
) -> None:
    bench = Bench(noisy_model(shape, dtype, device), kind)
    report.add(f"check_{name}_oracle", lambda: against_oracle(bench, None))
    report.add(f"check_{name}_int8_oracle", lambda: against_oracle(bench, torch.int8))
    report.add(f"check_{name}_isolation", lambda: isolation(bench, None))
    report.add(f"check_{name}_int8_isolation", lambda: isolation(bench, torch.int8))
    report.add(f"check_{name}_recording", lambda: recording(bench))
    for kind_of_ring, store in (("", None), ("_int8", torch.int8)):
        for is_exact in (False, True):
            how = "exact" if is_exact else "fast"
            report.add(f"check_{name}{kind_of_ring}_replay_{how}", partial(replay, bench, store, is_exact=is_exact))


def _path_of(report: Report, path: str, kind: str) -> str:
    """The plain kernels where a check of the others failed: a number is better than none."""
    failed = any(
        "failed" in value for name, value in report.found.items() if name.startswith("check_") and kind in name
    )
    return "plain" if failed else path


# -- how fast ------------------------------------------------------------------------------------------------------


def _measure(
    report: Report, name: str, asked: argparse.Namespace, device: torch.device, *, slots: str, kv: str
) -> None:
    engine = _loaded(report, name, asked, device, slots=slots, kv=kv)
    if engine is not None:
        _measure_loaded(report, name, asked, engine)
        del engine
    _freed(device)


def _measure_loaded(report: Report, name: str, asked: argparse.Namespace, engine: PersonaPlexEngine) -> None:
    count, window = engine.facts.slots, engine.parts.shape.window
    report.add(f"{name}_parts_ms", lambda: _parts_alone(engine, asked.steps))
    report.add(f"{name}_paced_joins", lambda: paced(engine, Plan(count, asked.seconds)))
    report.add(f"{name}_paced_rebuilds", lambda: paced(engine, Plan(count, asked.seconds * 0.6, 10, window)))
    whole_s = window * 0.08
    lengths = tuple(length for length in (10.0, 30.0, 60.0, 120.0) if length < whole_s)
    report.add(f"{name}_rebuild_alone", lambda: rebuild_times(engine, (*lengths, whole_s, 2 * whole_s)))
    report.add(f"{name}_rebuild_all", lambda: rebuild_all(engine, window))


def _loaded(
    report: Report, name: str, asked: argparse.Namespace, device: torch.device, *, slots: str, kv: str
) -> PersonaPlexEngine | None:
    options = EngineOptions(
        weights="random",
        shape=asked.shape,
        slots=slots,
        window_frames=asked.window_frames,
        device=device.type,
        kv=kv,
        path=asked.path,
        chunk_frames=asked.chunk_frames,
        threads=asked.threads,
    )
    engine = PersonaPlexEngine(options)

    def load() -> dict[str, Any]:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        engine.load()
        stepper = type(engine.parts.beat.stepper).__name__
        return {**engine.facts.plain(), "stepper": stepper, "memory_gb": memory_gb(device)}

    return None if "failed" in report.add(f"{name}_load", load) else engine


def _parts_alone(engine: PersonaPlexEngine, steps: int) -> dict[str, Any]:
    """Each part of a beat by itself, all slots running with a full window: recorded, then launched by kernels."""
    beat = engine.parts.beat
    device = beat.stepper.device
    age(engine.parts, None)
    beat.stepper.run.fill_(True)
    names = ("encode", "step", "decode")
    found: dict[str, Any] = {name: timed(part, steps, device) for name, part in zip(names, beat.parts, strict=True)}
    found["launched"] = {
        name: timed(part, max(1, steps // 10), device) for name, part in zip(names, beat.plain_parts, strict=True)
    }
    beat.stepper.run.zero_()
    finished(device)
    for slot in range(engine.facts.slots):
        beat.reset(slot, (slot, 0))
    return found


def _codec_alone(report: Report, asked: argparse.Namespace, device: torch.device) -> None:
    """The codec for few and many slots, beside a model that is as small as it can be."""
    is_real = asked.shape == "personaplex"
    small = replace(TINY, code_card=PERSONAPLEX.code_card) if is_real else TINY
    for slots in (1, 16, 64) if is_real else (1,):
        report.add(f"codec_{slots}", partial(_codec_of, slots, small, asked.steps, device))
    _freed(device)


def _codec_of(slots: int, shape: MoshiShape, steps: int, device: torch.device) -> dict[str, Any]:
    from ..mimi.codec import StreamingCodec
    from ..mimi.noise import noisy_mimi
    from ..moshi.stepper import Stepper
    from ..personaplex.beat import Beat

    codec = StreamingCodec(noisy_mimi(small=shape.code_card == TINY.code_card).to(device), slots)
    beat = Beat(Stepper(noisy_model(shape, torch.float32, device), slots), codec)
    beat.record()
    beat.stepper.run.fill_(True)
    encode, _, decode = beat.parts
    found = {"encode_ms": timed(encode, steps, device), "decode_ms": timed(decode, steps, device)}
    return {**found, "state_mib": round(codec.bytes_per_slot / 2**20, 2)}


def _freed(device: torch.device) -> None:
    gc.unfreeze()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
