"""What an operator may set, and what is said of what he may not."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from workers.models.nemotron.options import TALKER, read_nemotron_options

pytestmark = pytest.mark.unit

WEIGHTS = {"weights": "/models/nemotron"}


def test_what_is_not_ours_goes_to_the_engine_and_the_rest_has_defaults() -> None:
    options = read_nemotron_options({**WEIGHTS, "slots": "2", "python": "/opt/nemotron/bin/python"})
    assert (options.python, options.speech_python, options.talker) == (
        "/opt/nemotron/bin/python",
        sys.executable,
        TALKER,
    )
    assert dict(options.engine_texts) == {**WEIGHTS, "slots": "2"}
    assert (options.engine.weights, options.engine.slots) == ("/models/nemotron", "2")


def test_another_voice_is_named_by_its_factory_and_gets_the_options_that_begin_so() -> None:
    told = {"speech": "my.voice:make", "speech_python": "/opt/voice/bin/python", "speech_weights": "/w"}
    options = read_nemotron_options({**WEIGHTS, **told})
    assert (options.talker, options.speech_python) == ("my.voice:make", "/opt/voice/bin/python")
    assert options.speech_options == {"weights": "/w"}
    assert options.missing() is None


def test_speech_can_be_left_out() -> None:
    assert read_nemotron_options({**WEIGHTS, "speech": "off"}).talker is None


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "option weights is missing"),
        ({**WEIGHTS, "slots": "none"}, "option slots is 'none'; it is auto or a number"),
        ({**WEIGHTS, "colour": "red"}, "option colour is unknown"),
        ({**WEIGHTS, "speech": "loud"}, "option speech is 'loud'; it is voice, off or MODULE:FACTORY"),
        ({**WEIGHTS, "speech_weights": "/w"}, "option speech_weights is for speech=MODULE:FACTORY"),
        ({**WEIGHTS, "python": " "}, "option python is empty"),
        ({**WEIGHTS, "speech_python": ""}, "option speech_python is empty"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options: dict[str, str], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        read_nemotron_options(options)


def test_a_voice_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    options = read_nemotron_options(WEIGHTS)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "duplex-es[cascade]" in (options.missing() or "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert options.missing() is None
