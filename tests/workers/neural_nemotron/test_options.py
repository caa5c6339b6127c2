"""Options from their texts: what is wrong is named, with what it may be."""

from __future__ import annotations

import pytest

from workers.neural_nemotron.options import RECORD_BYTES, EngineOptions, read_engine_options

pytestmark = pytest.mark.neural


def test_options_are_read_from_their_texts() -> None:
    found = read_engine_options({"weights": "/models/voicechat", "slots": "6", "temperature": "0.7", "seed": "3"})
    assert found == EngineOptions(weights="/models/voicechat", slots="6", temperature=0.7, seed=3)


def test_what_is_remembered_and_the_longest_prompt_fill_what_attention_sees() -> None:
    options = EngineOptions(weights="random")
    assert options.prompt_tokens + options.memory_frames == options.context_frames
    assert options.memory_frames * RECORD_BYTES == 7_716_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "option weights is missing"),
        ({"colour": "red"}, "option colour is unknown; there are chunk_frames"),
        ({"shape": "big"}, "option shape is 'big'; it is one of 11b, tiny"),
        ({"dtype": "int8"}, "option dtype is 'int8'"),
        ({"slots": "none"}, "option slots is 'none'; it is auto or a number from 1"),
        ({"slots": "0"}, "option slots is '0'"),
        ({"memory_frames": "many"}, "option memory_frames is 'many'; it is a number"),
        ({"memory_frames": "0"}, "option memory_frames is 0; it is a number from 1"),
        ({"memory_frames": "12000"}, "option context_frames is 12000, with memory_frames 12000"),
        ({"temperature": "3"}, "option temperature is 3.0; it is a number from 0 to 2"),
        ({"temperature": "nan"}, "option temperature is nan"),
        ({"chunk_frames": "5000"}, "option chunk_frames is 5000; it is at most 2048"),
        ({"threads": "-1"}, "option threads is -1"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, str], message: str) -> None:
    options = {"weights": "random", **wrong} if wrong else {}
    with pytest.raises(ValueError, match="NemotronLabs-VoiceChat-11B: ") as error:
        read_engine_options(options)
    assert message in str(error.value)
