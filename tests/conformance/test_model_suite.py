"""The suite itself: it tests what a card promises, no more, no less, and says so where nobody named it."""

from __future__ import annotations

import pytest

from duplex_es.model import Model
from duplex_es.testing.model_suite import PROMISES, ModelSuite
from workers.models.echo import PLUGIN as ECHO
from workers.models.scripted import PLUGIN as SCRIPTED

pytestmark = pytest.mark.unit


class Silent(ModelSuite, promises=()):
    """Of a model that promises nothing."""

    @pytest.fixture
    def model(self) -> Model:
        return SCRIPTED({"profile": "nemotron_voicechat"})


class Unnamed(ModelSuite):
    """Of a model whose promises nobody named."""


def collected(suite: type[ModelSuite]) -> set[str]:
    """The tests that pytest finds in a class."""
    return {name for name in dir(suite) if name.startswith("test_") and callable(getattr(suite, name))}


def test_what_is_not_promised_is_not_collected() -> None:
    every, few = collected(ModelSuite), collected(Silent)
    assert collected(Unnamed) == every
    assert "test_the_card_can_be_believed" in few
    left_out = every - few
    assert {name for test in left_out for name in getattr(ModelSuite, test).promises} == set(PROMISES)
    assert not any(hasattr(getattr(ModelSuite, test), "promises") for test in few)


def test_a_test_of_two_promises_needs_both() -> None:
    class Rebuilds(ModelSuite, promises=("can_rebuild",)):
        pass

    assert "test_an_answer_to_speech_is_the_same_in_another_process" in collected(Rebuilds)
    assert "test_an_answer_to_words_is_the_same_in_another_process" not in collected(Rebuilds)


def test_a_subclass_tests_what_its_parent_does() -> None:
    class Again(Silent):
        pass

    assert collected(Again) == collected(Silent)


def test_a_promise_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="sings is none of transcribes, "):
        type("Sings", (ModelSuite,), {}, promises=("sings",))


async def test_a_list_that_is_not_the_cards_fails() -> None:
    with pytest.raises(AssertionError, match="something else than what is tested"):
        await Silent().test_the_card_can_be_believed(ECHO({}))
    await Silent().test_the_card_can_be_believed(SCRIPTED({"profile": "nemotron_voicechat"}))


async def test_without_a_list_what_a_card_does_not_promise_is_skipped_by_name() -> None:
    model = SCRIPTED({"profile": "qwen3_omni"})
    with pytest.raises(pytest.skip.Exception, match="does not promise can_rebuild: name what it does"):
        await Unnamed().test_an_answer_to_words_is_the_same_in_another_process(ready=model)
