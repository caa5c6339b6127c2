"""Where a scripted session gets its script from."""

from __future__ import annotations

import pytest

from duplex_es.model import CloseModel, ModelProducedText, ModelRefused, OpenModel
from duplex_es.testing.model_suite import Ear
from workers.models.scripted import PLUGIN

pytestmark = pytest.mark.unit

HELLO = '[{"on": "open", "do": [{"text": "worker"}, {"finish": true}]}]'


@pytest.mark.parametrize(
    ("extra_body", "said"),
    [({}, "worker"), ({"script": [{"on": "open", "do": [{"text": "session"}, {"finish": True}]}]}, "session")],
)
async def test_the_sessions_own_script_goes_first(extra_body: dict[str, object], said: str) -> None:
    ear = Ear()
    session = await PLUGIN({"script": HELLO}).open(
        OpenModel(session_id="s", incarnation=0, epoch=0, extra_body=extra_body), ear
    )
    assert (await ear.first(ModelProducedText)).text == said
    await session.perform(CloseModel())


async def test_a_session_with_a_bad_script_is_refused() -> None:
    request = OpenModel(session_id="s", incarnation=0, epoch=0, extra_body={"script": [{"on": "never"}]})
    with pytest.raises(ModelRefused) as refused:
        await PLUGIN({}).open(request, Ear())
    assert (refused.value.code, refused.value.param) == ("invalid_duplex_runtime_config", "session.extra_body.script")


def test_a_worker_with_a_bad_script_does_not_start() -> None:
    with pytest.raises(ValueError, match="step 0"):
        PLUGIN({"script": '[{"on": "never"}]'})


def test_the_card_is_set_by_options() -> None:
    info = PLUGIN({"auto_response": "no", "overlap_policy": "barge_in_on_speech", "can_rebuild": "no"}).info
    assert (info.auto_response, info.overlap_policy, info.can_rebuild) == (False, "barge_in_on_speech", False)
