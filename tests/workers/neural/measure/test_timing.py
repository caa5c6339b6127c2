"""Clocks and percentiles."""

from __future__ import annotations

import pytest
import torch

from workers.neural.measure.timing import memory_gb, spread, surroundings, timed

pytestmark = pytest.mark.neural

CPU = torch.device("cpu")


def test_percentiles_are_those_of_the_values() -> None:
    assert spread([]) == {}
    assert spread([float(value) for value in range(1, 101)]) == {"p50": 51, "p95": 96, "p99": 100, "max": 100}


def test_work_is_done_as_often_as_asked_and_its_time_is_not_negative() -> None:
    done: list[int] = []
    taken = timed(lambda: done.append(1), 5, CPU)
    assert len(done) == 5 and 0 <= taken["p50"] <= taken["max"]


def test_a_processor_has_a_name_and_no_device_memory() -> None:
    assert surroundings(CPU)["device"] == "cpu" and memory_gb(CPU) == {}
