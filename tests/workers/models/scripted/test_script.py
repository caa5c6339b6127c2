"""The script format: read strictly, refused with the place of the mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.models.scripted.script import DEFAULT_SCRIPT, BadScript, read_script

pytestmark = pytest.mark.unit

STEPS = [
    {"on": "end_turn", "transcript": "hi", "do": [{"audio_ms": 1000, "text": "Hello."}, {"finish": True}]},
    {"on": {"audio_ms": 2500}, "do": [{"interrupt": "barge_in"}]},
]


def test_a_script_is_the_same_from_a_value_a_text_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"steps": STEPS}))
    script = read_script(STEPS)
    assert script == read_script(json.dumps(STEPS)) == read_script(str(path)) == read_script({"steps": STEPS})
    assert (script[0].on, script[0].transcript, len(script[0].do)) == ("end_turn", "hi", 2)
    assert (script[1].on, script[1].at_ms, script[1].every) == ("audio_ms", 2500, False)


def test_the_default_script_can_be_read() -> None:
    assert {step.on for step in read_script(DEFAULT_SCRIPT)} == {"end_turn", "generate", "tool_output"}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("{nonsense", "no JSON"),
        ("/no/such/script.json", "no script file"),
        (7, "a list of steps"),
        (["speak"], "step 0 is no map"),
        ([{"on": "sunrise"}], "step 0: on is 'sunrise'"),
        ([{"on": "open", "then": []}], "step 0: unknown field 'then'"),
        ([{"on": "audio_ms"}], "step 0: at is 0"),
        ([{"on": "open", "do": {"finish": True}}], "step 0: do is no list"),
        ([{"on": "open"}, {"on": "open", "do": [{"shout": "hey"}]}], "step 1, action 0: unknown 'shout'"),
        ([{"on": "open", "do": [{"speak": True, "finish": True}]}], "step 0, action 0 has several verbs"),
        ([{"on": "open", "do": [{"audio_ms": 0}]}], "at least 1"),
        ([{"on": "open", "do": [{"audio_ms": "long"}]}], "audio_ms is 'long'"),
        ([{"on": "open", "do": [{"audio_ms": 10, "pace": "slow"}]}], "pace is 'slow'"),
        ([{"on": "open", "do": [{"fail": {"why": "x"}}]}], "fail has an unknown field"),
        ([{"on": "open", "do": [{"measure": {"0": {"tokens": 1}}}]}], "stage 0, has an unknown field 'tokens'"),
        ([{"on": "open", "do": [{"measure": {"0": {"num_tokens_in": "x"}}}]}], "measure cannot be .*num_tokens_in"),
        ([{"on": "open", "do": [{"measure": {"0": 3}}]}], "measure cannot be read"),
    ],
)
def test_a_mistake_is_refused_with_its_place(script: object, complaint: str) -> None:
    with pytest.raises(BadScript, match=complaint):
        read_script(script)
