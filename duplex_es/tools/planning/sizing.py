"""The arithmetic of a plan: from numbers to processes, memory and traffic. Pure, so that it can be checked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

KB, MB, GB = 1e3, 1e6, 1e9


@dataclass(frozen=True, slots=True)
class Tier:
    """Processes of one kind: how many, and what each needs at the peak, headroom included. ``why``: what decides."""

    count: int
    sessions_each: float
    cores_each: float
    memory_gb_each: float
    gpus_each: float
    why: str


@dataclass(frozen=True, slots=True)
class Store:
    """The store: primaries, copies of each, and what all primaries together hold and move."""

    shards: int
    replicas: int
    memory_gb: float
    open_gb: float
    closed_gb: float
    in_gbit: float
    out_gbit: float
    file_mb_s: float
    cores: float
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What so many sessions at the same time need. ``drivers``: what they cost, the dearest first, as (what, amount).

    ``cost_per_hour`` is ``None`` where no price is known.
    """

    sessions: int
    gateways: Tier
    workers: Tier
    store: Store
    client_in_gbit: float
    client_out_gbit: float
    drivers: tuple[tuple[str, float], ...]
    cost_per_hour: float | None
    warnings: tuple[str, ...]


def size(sessions: int, numbers: Mapping[str, float]) -> Plan:
    """Plan for ``sessions`` at the same time; ``numbers`` has every assumption by its name."""
    warnings: list[str] = []
    gateways = _gateways(sessions, numbers)
    workers = _workers(sessions, numbers, warnings)
    store = _store(sessions, numbers, warnings)
    out_gbit = sessions * numbers["client_out_kb"] * KB * 8 / 1e9
    drivers, cost = _drivers(gateways, workers, store, out_gbit, numbers)
    return Plan(
        sessions,
        gateways,
        workers,
        store,
        client_in_gbit=sessions * numbers["client_in_kb"] * KB * 8 / 1e9,
        client_out_gbit=out_gbit,
        drivers=drivers,
        cost_per_hour=cost,
        warnings=tuple(warnings),
    )


def _gateways(sessions: int, numbers: Mapping[str, float]) -> Tier:
    # A gateway is one loop on one core.
    each = (
        max(1, int(numbers["headroom"] * 1000 / numbers["gateway_cpu_ms"])) if numbers["gateway_cpu_ms"] else sessions
    )
    needed = max(1, ceil(sessions / each))
    count = max(2, needed + ceil(numbers["spare_gateways"]))
    memory_gb = (numbers["gateway_base_mb"] * MB + each * numbers["gateway_session_kb"] * KB) / numbers["headroom"] / GB
    why = f"{each} sessions keep {numbers['headroom']:.0%} of a core busy; {count - needed} to spare"
    return Tier(count, sessions / count, 1.0, memory_gb, 0.0, why)


def _workers(sessions: int, numbers: Mapping[str, float], warnings: list[str]) -> Tier:
    each = numbers["sessions_per_worker"]
    needed = ceil(sessions / each)
    count = needed + max(1, ceil(needed * numbers["spare_workers"]))
    loop = each * numbers["worker_cpu_ms"] / 1000
    if loop > 0.8:
        warnings.append(
            f"a worker's own loop would be busy to {loop:.0%} of one core with {each:g} sessions: it must be a fast"
            " core, or set sessions_per_worker lower"
        )
    memory_gb = numbers["worker_base_mb"] * MB + each * numbers["worker_session_kb"] * KB
    memory_gb = memory_gb / numbers["headroom"] / GB + numbers["model_memory_gb"]
    why = f"{each:g} sessions each; {count - needed} to spare, which also takes over what a lost one held"
    return Tier(
        count, sessions / count, max(1.0, loop) + numbers["model_cores"], memory_gb, numbers["gpus_per_worker"], why
    )


def _store(sessions: int, numbers: Mapping[str, float], warnings: list[str]) -> Store:
    one_mb = kept_mb(numbers["mean_session_s"], numbers)
    open_gb = sessions * one_mb / 1000
    closed_gb = open_gb * numbers["kept_closed_s"] / numbers["mean_session_s"]
    in_gbit = sessions * numbers["store_in_kb"] * KB * 8 / 1e9
    out_gbit = sessions * numbers["store_out_kb"] * KB * 8 / 1e9
    cores = sessions * numbers["store_cpu_ms"] / 1000
    headroom, copies = numbers["headroom"], ceil(numbers["store_replicas"])
    wanted = {
        "memory": ceil((open_gb + closed_gb) / (numbers["store_node_gb"] * headroom)),
        # A primary sends everything that it takes to each of its copies, too.
        "network": ceil(max(in_gbit, out_gbit + in_gbit * copies) / (numbers["store_node_gbit"] * headroom)),
        "processor": ceil(cores / headroom),  # one thread runs the commands
    }
    why = max(wanted, key=lambda name: wanted[name])
    shards = max(1, wanted[why])
    if shards == 2:
        shards = 3  # a cluster has three primaries at least
    if shards > 1:
        warnings.append("more than one shard: use redis+cluster:// (three primaries or more)")
    if closed_gb > open_gb:
        warnings.append(
            f"{closed_gb / (open_gb + closed_gb):.0%} of the store is sessions that are over: keep them shorter, keep"
            " less sound (--audio-retention-bytes), or let the archive take them (kept_closed_s=60)"
        )
    return Store(
        shards,
        copies,
        memory_gb=open_gb + closed_gb,
        open_gb=open_gb,
        closed_gb=closed_gb,
        in_gbit=in_gbit,
        out_gbit=out_gbit,
        file_mb_s=sessions * numbers["store_file_kb"] / 1000,
        cores=cores,
        why=f"{why} decides",
    )


def kept_mb(age_s: float, numbers: Mapping[str, float]) -> float:
    """What the store holds of a session of that age, in MB."""
    added_mb = age_s * numbers["store_growth_kb"] / 1000
    history_mb = added_mb * numbers["history_share"]
    return min(history_mb, numbers["kept_history_mb"]) + min(added_mb - history_mb, numbers["kept_sound_mb"])


def _drivers(
    gateways: Tier, workers: Tier, store: Store, out_gbit: float, numbers: Mapping[str, float]
) -> tuple[tuple[tuple[str, float], ...], float | None]:
    nodes = store.shards * (1 + store.replicas)
    cores = gateways.count * gateways.cores_each + workers.count * workers.cores_each + 2 * nodes
    memory_gb = gateways.count * gateways.memory_gb_each + workers.count * workers.memory_gb_each
    memory_gb += nodes * numbers["store_node_gb"]
    amounts = {
        "GPUs": (workers.count * workers.gpus_each, numbers["price_gpu_hour"]),
        "cores": (cores, numbers["price_core_hour"]),
        "GB of memory": (memory_gb, numbers["price_gb_hour"]),
        "GB to clients an hour": (out_gbit * 3600 / 8, numbers["price_egress_gb"]),
    }
    if not any(price for _, price in amounts.values()):
        return tuple((name, round(amount, 1)) for name, (amount, _) in amounts.items()), None
    costs = sorted(((amount * price, name) for name, (amount, price) in amounts.items()), reverse=True)
    return tuple((name, round(cost, 2)) for cost, name in costs), round(sum(cost for cost, _ in costs), 2)
