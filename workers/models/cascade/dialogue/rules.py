"""The order of the rules, and how one utterance of several sentences gets one answer."""

from __future__ import annotations

from collections.abc import Callable

from ...speech.sentences import split_sentences
from . import smalltalk
from .arithmetic import answer_sum
from .scene import Scene
from .units import answer_conversion

Rule = Callable[[Scene, str], str | None]


def _sum(scene: Scene, sentence: str) -> str | None:
    return answer_sum(sentence)


def _conversion(scene: Scene, sentence: str) -> str | None:
    return answer_conversion(sentence)


ANSWERS: tuple[Rule, ...] = (
    smalltalk.stop,
    smalltalk.name_asked,
    smalltalk.who_are_you,
    _conversion,
    _sum,
    smalltalk.time_asked,
    smalltalk.date_asked,
    smalltalk.counting,
    smalltalk.story,
    smalltalk.pace,
    smalltalk.repeat,
    smalltalk.help_asked,
    smalltalk.how_are_you,
    smalltalk.name_given,
    smalltalk.yes_or_no,
)
"""Rules that answer something; the first that does wins."""

COURTESIES: tuple[Rule, ...] = (smalltalk.greeting, smalltalk.thanks, smalltalk.goodbye)
"""Rules that only return a courtesy; several may be answered at once."""


def answer_by_rules(scene: Scene) -> tuple[str | None, bool]:
    """What the rules say to the utterance, or ``None``; and whether they answered every sentence of substance.

    A greeting in front of a question is not answered on its own.
    """
    said: list[str] = []
    courtesies: list[str] = []
    complete = True
    for sentence in split_sentences(scene.utterance):
        if answer := _first(ANSWERS, scene, sentence):
            said.append(answer)
        elif found := [text for rule in COURTESIES if (text := rule(scene, sentence))]:
            courtesies.extend(found)
        elif len(sentence.split()) > 2:
            complete = False
    greetings = [text for text in courtesies if not (said and text.startswith("Hello"))]
    answer = " ".join(dict.fromkeys([*said, *greetings]))
    return answer or None, complete


def _first(rules: tuple[Rule, ...], scene: Scene, sentence: str) -> str | None:
    return next((answer for rule in rules if (answer := rule(scene, sentence))), None)
