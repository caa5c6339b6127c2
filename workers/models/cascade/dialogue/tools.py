"""Which of the client's tools an utterance asks for, and with what arguments; no language model involved.

A tool is chosen by the words of its name and description, its arguments are read from the utterance by the JSON schema.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from .arguments import read_argument
from .scene import Call, Scene, Tool

ENOUGH = 2

_COMMON = (
    "a an and any are as at be by can do does for from get give has have how i in into is it its me my of on or our "
    "please say set show some tell that the their them then there these this to up use using want was what when where "
    "which who will with you your fetch find look lookup search call function tool tools current given return returns "
    "value user make run api data info information name not no yes"
)
_COMMON_WORDS = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tool an utterance asks for: a finished call, or the question for what is missing."""

    call: Call | None
    question: str = ""


def wanted_tool(scene: Scene) -> Wanted | None:
    """The best matching tool, or ``None`` when no tool matches well enough.

    When the assistant's last line was the question for a missing argument, the utterance is its answer.
    """
    utterance = scene.utterance
    asked = next((tool for tool in scene.tools if scene.last_said().startswith(_asking(tool))), None)
    if asked is not None:
        before = scene.user_lines()[-2:-1]
        utterance = " ".join([*before, _as_answer(utterance)])
    tool = asked or _best(scene)
    if tool is None:
        return None
    found, missing = _arguments(tool, utterance, whole=scene.utterance)
    if missing:
        return Wanted(None, f"{_asking(tool)} {_said(missing)}?")
    return Wanted(Call(tool.name, json.dumps(found, ensure_ascii=False)))


def _asking(tool: Tool) -> str:
    words = _said(tool.name).split()
    return f"For the {' '.join(word for word in words if word not in _COMMON_WORDS) or ' '.join(words)}, which"


def _as_answer(utterance: str) -> str:
    """A bare answer ("Paris.") in the form arguments are read from."""
    words = utterance.strip().rstrip(".!?")
    return words if re.match(r"(?:in|for|at|to|on|from|about)\b", words, re.IGNORECASE) else f"for {words}"


def _best(scene: Scene) -> Tool | None:
    said = _stems(scene.utterance)
    scored = [(_score(tool, said), -index, tool) for index, tool in enumerate(scene.tools)]
    best = max(scored, default=(0, 0, None), key=lambda row: row[:2])
    return best[2] if best[0] >= ENOUGH else None


def _score(tool: Tool, said: frozenset[str]) -> int:
    """Two points for each word of the name that was said, one for each further word of the description."""
    name, description = _stems(_said(tool.name)), _stems(tool.description)
    return 2 * len(name & said) + len((description - name) & said)


def _stems(text: str) -> frozenset[str]:
    words = re.findall(r"[a-z]+", text.lower().replace("'s", ""))
    return frozenset(_stem(word) for word in words if word not in _COMMON_WORDS and len(word) > 1)


def _stem(word: str) -> str:
    for ending in ("ing", "ers", "er", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _said(name: str) -> str:
    """An identifier as words: ``getWeather`` and ``get_weather`` as "get weather"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", name).strip().lower()


def _arguments(tool: Tool, utterance: str, whole: str) -> tuple[dict[str, object], str | None]:
    """The arguments found, and the first required one that was not."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    found: dict[str, object] = {}
    taken: list[str] = []
    missing = None
    for name, schema in (properties if isinstance(properties, dict) else {}).items():
        must = isinstance(required, list) and name in required
        spec = schema if isinstance(schema, dict) else {}
        value = read_argument(name, spec, utterance, taken, whole if must else None)
        if value is not None:
            found[name] = value
            taken.append(str(value))
        elif must:
            missing = missing or name
    return found, missing
