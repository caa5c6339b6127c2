"""The arithmetic of a plan, by hand."""

from __future__ import annotations

import itertools

import pytest

from duplex_es.tools.planning.assumptions import assumptions_for
from duplex_es.tools.planning.sizing import kept_mb, size

pytestmark = pytest.mark.unit


def numbers(model: str = "echo", **others: float) -> dict[str, float]:
    """All assumptions with round figures, so that results can be worked out in the head."""
    found = {name: one.value for name, one in assumptions_for(model).items()}
    round_ones = {
        "headroom": 0.5, "gateway_cpu_ms": 10, "worker_cpu_ms": 10, "store_cpu_ms": 2,
        "gateway_base_mb": 100, "gateway_session_kb": 1000, "worker_base_mb": 100, "worker_session_kb": 1000,
        "store_growth_kb": 100, "store_file_kb": 100, "store_in_kb": 200, "store_out_kb": 100, "history_share": 0.1,
        "kept_sound_mb": 9, "kept_history_mb": 9, "kept_closed_s": 900, "mean_session_s": 300,
        "client_in_kb": 50, "client_out_kb": 100, "store_node_gb": 32, "store_node_gbit": 10, "store_replicas": 1,
        "sessions_per_worker": 20, "spare_workers": 0.1, "spare_gateways": 1,
    }  # fmt: skip
    return {**found, **round_ones, **others}


def test_a_gateway_takes_what_half_a_core_can_and_one_is_spare() -> None:
    plan = size(1000, numbers())
    # 500 ms of a core at 10 ms a session: 50 each, 20 of them, one more.
    assert plan.gateways.count == 21
    assert plan.gateways.memory_gb_each == pytest.approx((0.1 + 50 * 0.001) / 0.5)
    assert "50 sessions" in plan.gateways.why


def test_there_are_never_fewer_than_two_gateways_and_two_workers() -> None:
    plan = size(1, numbers(spare_gateways=0))
    assert (plan.gateways.count, plan.workers.count) == (2, 2)


def test_workers_are_the_slots_and_a_tenth_more() -> None:
    plan = size(1000, numbers(gpus_per_worker=1, model_cores=2, model_memory_gb=10))
    assert plan.workers.count == 55
    assert plan.workers.cores_each == 3  # one loop, two for the model
    assert plan.workers.memory_gb_each == pytest.approx((0.1 + 20 * 0.001) / 0.5 + 10)
    assert dict(plan.drivers)["GPUs"] == 55


def test_a_loop_that_is_too_busy_is_said() -> None:
    assert not any("loop" in words for words in size(100, numbers()).warnings)
    assert any("loop would be busy to 200%" in words for words in size(100, numbers(sessions_per_worker=200)).warnings)


def test_what_is_kept_of_a_session_ends_at_its_bounds() -> None:
    assert kept_mb(10, numbers()) == pytest.approx(1.0)
    # 30 MB in 300 s: 3 of history, 27 of sound, of which 9 are kept.
    assert kept_mb(300, numbers()) == pytest.approx(12.0)
    assert kept_mb(3600, numbers()) == pytest.approx(18.0)


def test_the_store_holds_open_sessions_and_those_that_were_closed_lately() -> None:
    store = size(1000, numbers()).store
    assert (store.open_gb, store.closed_gb, store.memory_gb) == pytest.approx((12.0, 36.0, 48.0))
    # 48 GB at 16 GB a node; 2 cores at half a core: four.
    assert (store.shards, store.replicas) == (4, 1)
    assert store.why == "processor decides"
    assert store.in_gbit == pytest.approx(1.6) and store.file_mb_s == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("others", "shards", "why"),
    [
        ({"store_node_gb": 4}, 24, "memory"),
        ({"store_node_gbit": 0.5}, 10, "network"),  # 0.8 Gbit/s to readers and 1.6 to the copy, over 0.25
        ({"store_node_gb": 64, "store_cpu_ms": 0.2}, 3, "memory"),  # two would do, but a cluster has three
        ({"store_node_gb": 128, "store_cpu_ms": 0.2}, 1, "memory"),
    ],
)
def test_what_is_scarcest_decides_about_the_nodes(others: dict[str, float], shards: int, why: str) -> None:
    plan = size(1000, numbers(**others))
    assert (plan.store.shards, plan.store.why) == (shards, f"{why} decides")
    assert any("redis+cluster" in words for words in plan.warnings) == (shards > 1)


def test_traffic_of_clients() -> None:
    plan = size(1000, numbers())
    assert (plan.client_in_gbit, plan.client_out_gbit) == pytest.approx((0.4, 0.8))


def test_prices_make_a_sum_and_sort_what_costs() -> None:
    assert size(1000, numbers()).cost_per_hour is None
    plan = size(1000, numbers(price_gpu_hour=2, price_core_hour=0.1, gpus_per_worker=1))
    costs = dict(plan.drivers)
    assert costs["GPUs"] == 110 and next(iter(costs)) == "GPUs"
    assert plan.cost_per_hour == pytest.approx(sum(costs.values()))


def test_more_sessions_never_need_less() -> None:
    plans = [size(sessions, numbers("personaplex")) for sessions in (1, 10, 100, 1_000, 10_000)]
    for smaller, larger in itertools.pairwise(plans):
        assert smaller.gateways.count <= larger.gateways.count
        assert smaller.workers.count <= larger.workers.count
        assert smaller.store.shards <= larger.store.shards
