"""What a plan rests on: named numbers with their units and where they come from. Any of them can be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

MEASURED = "measured: docs/measurements/capacity.json"
PERSONAPLEX = "measured: docs/models/personaplex.md"
CASCADE = f"{MEASURED}, cascade: 0.05 cores and 30 MB a session, 420 MB for all; one core, for it comes in bursts"
SETTING = "default of the service"
GUESS = "assumed: say your own"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One number. ``source`` says where it comes from, ``given on the command line`` for a replaced one."""

    name: str
    value: float
    unit: str
    meaning: str
    source: str


def _costs(kind: str, *values: float) -> tuple[Assumption, ...]:
    """What a session of this kind of call costs, in the order of the fields of the measurement."""
    rows = (
        ("gateway_cpu_ms", "ms/s", "processor time of a session in its gateway"),
        ("worker_cpu_ms", "ms/s", "the same in its worker, the model's own work left out"),
        ("store_cpu_ms", "ms/s", "the same in the store"),
        ("gateway_session_kb", "kB", "memory of a session in its gateway"),
        ("worker_session_kb", "kB", "memory of a session in its worker, the model's left out"),
        ("store_growth_kb", "kB/s", "what a session adds to the store's memory until its bounds are reached"),
        ("store_file_kb", "kB/s", "what its append-only file grows by, between two rewrites"),
        ("store_in_kb", "kB/s", "from gateways and workers to the store"),
        ("store_out_kb", "kB/s", "from the store to gateways and workers"),
        ("client_in_kb", "kB/s", "from a client to its gateway"),
        ("client_out_kb", "kB/s", "from a gateway to its client"),
    )
    return tuple(
        Assumption(name, value, unit, meaning, f"{MEASURED}, {kind}")
        for (name, unit, meaning), value in zip(rows, values, strict=True)
    )


COSTS: Mapping[str, tuple[Assumption, ...]] = {
    "turns": _costs("turns", 3.4, 3.5, 1.1, 190, 176, 47, 53, 99, 49, 31, 22),
    "stream": _costs("stream", 6.3, 8.5, 2.1, 280, 420, 112, 119, 233, 116, 63, 71),
}
"""``turns``: a question, its answer, a pause. ``stream``: both sides sound all the time."""

EVERY = (
    Assumption("headroom", 0.6, "share", "how much of a core, a memory or a link may be in use at the peak", GUESS),
    Assumption("mean_session_s", 300, "s", "how long a call lasts", GUESS),
    Assumption("spare_gateways", 1, "", "gateways that may be lost without the others being too full", GUESS),
    Assumption("spare_workers", 0.05, "share", "workers beyond what the sessions need, one at least", GUESS),
    Assumption("gateway_base_mb", 50, "MB", "memory of a gateway without sessions", MEASURED),
    Assumption("worker_base_mb", 63, "MB", "memory of a worker without sessions and without its model", MEASURED),
    Assumption("kept_sound_mb", 8.4, "MB", "sound kept of a session (--audio-retention-bytes)", SETTING),
    Assumption("kept_history_mb", 8.4, "MB", "records kept of a session (--history-retention-bytes)", SETTING),
    Assumption("history_share", 0.2, "share", "how much of what a session adds to the store is not sound", MEASURED),
    Assumption("kept_closed_s", 900, "s", "how long a closed session stays in the store", SETTING),
    Assumption("store_node_gb", 32, "GB", "memory of one node of the store", GUESS),
    Assumption("store_node_gbit", 10, "Gbit/s", "network of one node of the store", GUESS),
    Assumption("store_replicas", 1, "", "copies of each node of the store", GUESS),
    Assumption("price_core_hour", 0, "money", "one core for an hour; 0: not counted", GUESS),
    Assumption("price_gb_hour", 0, "money", "one GB of memory for an hour; 0: not counted", GUESS),
    Assumption("price_gpu_hour", 0, "money", "one GPU for an hour; 0: not counted", GUESS),
    Assumption("price_egress_gb", 0, "money", "one GB sent to clients; 0: not counted", GUESS),
)


def _model(
    per_worker: float, gpus: float, cores: float, memory_gb: float, source: str, *, needs: str = GUESS
) -> tuple[Assumption, ...]:
    return (
        Assumption("sessions_per_worker", per_worker, "", "how many sessions one worker takes", source),
        Assumption("gpus_per_worker", gpus, "", "GPUs of one worker", source),
        Assumption("model_cores", cores, "cores", "what the model of one worker computes with, beside its GPU", needs),
        Assumption("model_memory_gb", memory_gb, "GB", "memory of one worker's model, not the GPU's", needs),
    )


@dataclass(frozen=True, slots=True)
class ModelShape:
    """How a model's calls look (a key of ``COSTS``) and what its workers need."""

    name: str
    kind: str
    numbers: tuple[Assumption, ...]


MODELS: Mapping[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape("echo", "turns", _model(64, 0, 0, 0, "deploy/models/echo.toml")),
        ModelShape("scripted", "turns", _model(64, 0, 0, 0, GUESS)),
        ModelShape("cascade", "turns", _model(8, 0, 1, 0.7, "deploy/models/cascade.toml", needs=CASCADE)),
        ModelShape("chat", "turns", _model(64, 0, 0, 0, f"{GUESS}; the model runs elsewhere")),
        ModelShape("vllm-omni", "turns", _model(64, 0, 0, 0, f"{GUESS}; the model runs elsewhere")),
        ModelShape(
            "nvidia/personaplex-7b-v1", "stream", _model(80, 1, 2, 16, f"{PERSONAPLEX}, one H200, bf16, window full")
        ),
        ModelShape(
            "openbmb/MiniCPM-o-4_5", "turns", _model(4, 1, 2, 16, "its authors' 28 GiB a session, of 141 GB of an H200")
        ),
        ModelShape(
            "Qwen/Qwen3-Omni-30B-A3B-Instruct",
            "turns",
            _model(32, 1, 2, 16, "deploy/models/qwen3-omni.toml, not measured"),
        ),
        ModelShape(
            "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",
            "stream",
            _model(1, 1, 2, 16, "its makers' figure, one session a GPU"),
        ),
    )
}
ALIASES: Mapping[str, str] = {
    "personaplex": "nvidia/personaplex-7b-v1",
    "minicpmo": "openbmb/MiniCPM-o-4_5",
    "nemotron": "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",
    "qwen3-omni": "Qwen/Qwen3-Omni-30B-A3B-Instruct",
}


class UnknownAssumption(ValueError):
    """Said in words: what is not known, and what is."""


def assumptions_for(model: str, replaced: Iterable[str] = ()) -> dict[str, Assumption]:
    """All numbers of a plan for ``model`` by name; ``replaced`` has ``NAME=VALUE`` for each that is to be another.

    Raises: UnknownAssumption for a model or a name that is not known, or a value that is no number of 0 or more.
    """
    shape = MODELS.get(ALIASES.get(model, model))
    if shape is None:
        known = ", ".join(sorted({*MODELS, *ALIASES}))
        raise UnknownAssumption(f"nothing is known of the model {model!r}; known are {known}")
    found = {one.name: one for one in (*shape.numbers, *COSTS[shape.kind], *EVERY)}
    for words in replaced:
        name, _, text = words.partition("=")
        if name not in found:
            raise UnknownAssumption(f"--set {words}: there is no assumption {name!r}; there are {', '.join(found)}")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise UnknownAssumption(f"--set {words}: a number of 0 or more is needed")
        found[name] = replace(found[name], value=value, source="given on the command line")
    for name in ("headroom", "mean_session_s", "sessions_per_worker", "store_node_gb", "store_node_gbit"):
        if not found[name].value:
            raise UnknownAssumption(f"--set {name}=0: it must be above 0")
    return found
