"""Options, text to values."""

from __future__ import annotations

import pytest

from workers.neural.moshi.shape import SHAPES
from workers.neural.personaplex.options import WINDOWS_FRAMES, read_engine_options

pytestmark = pytest.mark.neural


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "weights is missing"),
        ({"weights": "random", "kv": "fp8"}, "kv is 'fp8'; it is one of auto, bf16, int8"),
        ({"weights": "random", "keep": "all"}, "keep is 'all'; it is one of nothing, weights, windows"),
        ({"weights": "random", "standby": "2"}, "standby is '2'; it is yes or no"),
        ({"weights": "random", "slots": "many"}, "slots is 'many'"),
        ({"weights": "random", "window_frames": "1"}, "window_frames is 1; it is a number from 2"),
        ({"weights": "random", "seed": "x"}, "seed is 'x'"),
        ({"weights": "random", "greedy": "perhaps"}, "greedy is 'perhaps'"),
        ({"weights": "random", "wieghts": "x"}, "option wieghts is unknown"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_engine_options(options)


def test_options_are_read_by_name_and_the_memory_follows_the_window() -> None:
    options = read_engine_options({"weights": "random", "greedy": "yes", "window_frames": "750", "seed": "7"})
    assert (options.greedy, options.window_frames, options.seed, options.rebuild) == (True, 750, 7, "fast")
    assert options.memory_bytes == 2 * 750 * 38
    assert read_engine_options({"weights": "random", "shape": "tiny"}).memory_bytes == 2 * 24 * 38


def test_the_windows_that_are_known_without_torch_are_those_of_the_shapes() -> None:
    assert {name: shape.window for name, shape in SHAPES.items()} == WINDOWS_FRAMES


def test_nothing_is_kept_and_nobody_waits_unless_it_is_asked_for() -> None:
    options = read_engine_options({"weights": "random"})
    assert (options.keep, options.standby) == ("nothing", False)
    options = read_engine_options({"weights": "random", "keep": "windows", "standby": "yes"})
    assert (options.keep, options.standby) == ("windows", True)
