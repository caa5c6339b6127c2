"""What anybody would answer: greetings, names, the clock, repeating, pace, counting, thanks and goodbyes.

Each rule takes the scene and one sentence of the utterance, and returns what to say or ``None``.
"""

from __future__ import annotations

import re

from .numerals import numbers_in
from .scene import Manner, Scene

STORY = (
    "Once there was a small lighthouse on a very quiet coast. Every night it sent its light across the water, and "
    "every night no ship came by. One winter a fishing boat lost its way in the fog, and the light was all it could "
    "see. The crew came safely home. Since then they wave at the lighthouse whenever they pass, and it blinks back."
)
JOKE = "Why did the computer go to the doctor? Because it had caught a virus."
MOST_COUNTED = 30

_STATES = (
    "a an the not so very just really sorry fine good great okay ok well here there back sure ready done happy sad "
    "tired hungry bored glad afraid going looking calling trying from in on at your my called still also and i what"
)
_NOT_NAMES = frozenset(_STATES.split())


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})\b", re.IGNORECASE)


_NAMED = re.compile(
    r"\b(?:my name is|my name's|call me|name is)\s+([a-z][\w'-]*(?:\s+(?-i:[A-Z])[\w'-]*)?)", re.IGNORECASE
)
_I_AM = re.compile(r"\b(?:I'm|I am|This is)\s+([A-Z][\w'-]+)\b(?!\s+(?!and\b|but\b|from\b)[a-z])")
_ASKS_NAME = _pattern(
    r"what(?:'s| is| was) my name|who am i|(?:know|remember|forgot|forget|say|tell me) (?:what )?my name"
)
_ASKS_WHO = _pattern(r"who are you|what(?:'s| is) your name|what are you")
_CALLED = re.compile(r"\b(?:[Yy]our name is|[Yy]ou are(?: called| named)?|[Cc]alled)\s+([A-Z]\w+)")
_ASKS_HEALTH = _pattern(r"how(?:'s it going| are you| do you do| are things)")
_GREETING = re.compile(r"^(?:oh |well )?(?:hello|hi|hey|good (?:morning|afternoon|evening)|greetings)\b", re.IGNORECASE)
_ASKS_TIME = _pattern(r"what time|what(?:'s| is) the time|tell me the time|the time is it|current time")
_ASKS_DATE = _pattern(r"what(?:'s| is)? (?:the |today's )?(?:date|day)|which day|today's date|day is it")
_ASKS_YEAR, _ASKS_MONTH = _pattern("what year"), _pattern("what month")
_AFTER_ME = re.compile(r"\b(?:repeat after me|say after me|please say|say exactly)\b[:,]?\s*(.+)", re.IGNORECASE)
_AGAIN = _pattern(
    r"repeat (?:that|it|this|yourself|please)|say (?:that|it|this) again|(?:once|tell me|come) again|again,? please"
    + r"|pardon|what did you say|didn't (?:hear|catch|get|understand) (?:that|you)"
)
_SLOWER = _pattern("slower|slow down|more slowly|too fast")
_FASTER = _pattern("faster|speed up|more quickly|too slow")
_LOUDER = _pattern("louder|speak up|can(?:'t|not) hear you|too quiet|turn it up")
_QUIETER = _pattern("quieter|more quietly|softer|too loud|turn it down")
_COUNT = _pattern("count")
_STORY = _pattern(r"(?:tell|hear|read)\b.*\b(?:story|tale)")
_JOKE = _pattern("joke")
_THANKS = _pattern("thanks|thank you")
_GOODBYE = _pattern("goodbye|good bye|bye|see you|good night|talk to you later")
_STOP = re.compile(r"\W*(?:please )?(?:stop|be quiet|quiet|never ?mind|forget it|wait|shut up)\b.{0,12}", re.IGNORECASE)
_HELP = _pattern(r"help|what can you do|what do you know|what can i (?:ask|say)")


def known_name(lines: list[str]) -> str | None:
    """The name the caller gave last, in any of their lines."""
    for line in reversed(lines):
        found = _NAMED.search(line) or _I_AM.search(line)
        words = found.group(1).split() if found else []
        if words and words[0].lower() not in _NOT_NAMES:
            kept = [word for word in words if word.lower() not in _NOT_NAMES]
            return " ".join(word[0].upper() + word[1:] for word in kept).removesuffix("'s")
    return None


def manner_of(lines: list[str]) -> Manner:
    """How the caller has asked to be spoken to so far; every request changes the pace or the volume by a step."""
    steps = sum(bool(_FASTER.search(line)) - bool(_SLOWER.search(line)) for line in lines)
    volume = sum(bool(_LOUDER.search(line)) - bool(_QUIETER.search(line)) for line in lines)
    return Manner(speed=min(1.6, max(0.6, 1.0 + 0.15 * steps)), gain=min(2.5, max(0.3, 1.4**volume)))


def name_given(scene: Scene, sentence: str) -> str | None:
    """The caller says who they are."""
    name = known_name([sentence])
    return f"Hello {name}, nice to meet you." if name and not _ASKS_NAME.search(sentence) else None


def name_asked(scene: Scene, sentence: str) -> str | None:
    """The caller asks for their own name."""
    if not _ASKS_NAME.search(sentence):
        return None
    name = known_name(scene.user_lines())
    return f"Your name is {name}." if name else "You have not told me your name yet."


def who_are_you(scene: Scene, sentence: str) -> str | None:
    """The caller asks for the assistant's name: the one in the instructions, if they give one."""
    if not _ASKS_WHO.search(sentence):
        return None
    given = _CALLED.search(scene.instructions or "")
    return f"I am {given.group(1)}." if given else "I am a voice assistant. You can talk to me and I will answer."


def how_are_you(scene: Scene, sentence: str) -> str | None:
    """The caller asks how it goes."""
    return "I am doing well, thank you. How can I help you?" if _ASKS_HEALTH.search(sentence) else None


def greeting(scene: Scene, sentence: str) -> str | None:
    """A greeting with nothing else to answer in it."""
    if not _GREETING.search(sentence) or len(sentence.split()) > 4:
        return None
    name = known_name(scene.user_lines())
    return f"Hello {name}. How can I help you?" if name else "Hello. How can I help you?"


def time_asked(scene: Scene, sentence: str) -> str | None:
    """The time of day, on the scene's clock."""
    if not _ASKS_TIME.search(sentence):
        return None
    hour = scene.now.hour % 12 or 12
    return f"It is {hour}:{scene.now.minute:02} {'AM' if scene.now.hour < 12 else 'PM'}."


def date_asked(scene: Scene, sentence: str) -> str | None:
    """The day, the month or the year, on the scene's clock."""
    if _ASKS_YEAR.search(sentence):
        return f"It is the year {scene.now.year}."
    if _ASKS_MONTH.search(sentence):
        return f"It is {scene.now:%B}."
    if _ASKS_DATE.search(sentence):
        return f"Today is {scene.now:%A}, {scene.now:%B} {scene.now.day}, {scene.now.year}."
    return None


def repeat(scene: Scene, sentence: str) -> str | None:
    """The last answer again, or the words the caller wants to hear."""
    if echoed := _AFTER_ME.search(sentence):
        return echoed.group(1)
    if not _AGAIN.search(sentence) or len(sentence.split()) > 10:
        return None
    return scene.last_said() or "I have not said anything yet."


def pace(scene: Scene, sentence: str) -> str | None:
    """Slower, faster, louder, quieter; what is asked for holds from this answer on (``manner_of``)."""
    for pattern, answer in (
        (_SLOWER, "Okay, I will speak more slowly."),
        (_FASTER, "Okay, I will speak faster."),
        (_LOUDER, "Okay, I will speak louder."),
        (_QUIETER, "Okay, I will speak more quietly."),
    ):
        if pattern.search(sentence):
            return answer
    return None


def counting(scene: Scene, sentence: str) -> str | None:
    """Numbers in order, at most thirty of them."""
    if not _COUNT.search(sentence):
        return None
    numbers = [int(number) for number in numbers_in(sentence) if number.denominator == 1]
    first, last = (numbers[0], numbers[1]) if len(numbers) > 1 else (1, numbers[0] if numbers else 5)
    step = 1 if last >= first else -1
    last = first + step * min(abs(last - first), MOST_COUNTED - 1)
    return ", ".join(str(number) for number in range(first, last + step, step)) + "."


def story(scene: Scene, sentence: str) -> str | None:
    """A short story, or a joke."""
    if _STORY.search(sentence):
        return STORY
    return JOKE if _JOKE.search(sentence) else None


def thanks(scene: Scene, sentence: str) -> str | None:
    """The caller says thank you."""
    return "You are welcome." if _THANKS.search(sentence) else None


def goodbye(scene: Scene, sentence: str) -> str | None:
    """The caller takes their leave."""
    if not _GOODBYE.search(sentence):
        return None
    name = known_name(scene.user_lines())
    return f"Goodbye, {name}." if name else "Goodbye."


def stop(scene: Scene, sentence: str) -> str | None:
    """The caller wants silence."""
    return "Okay." if _STOP.fullmatch(sentence.strip()) else None


def yes_or_no(scene: Scene, sentence: str) -> str | None:
    """A bare yes or no."""
    word = re.sub(r"[^a-z ]", "", sentence.lower()).strip().removesuffix(" please").removesuffix(" thanks")
    if word in {"yes", "yeah", "yep", "sure", "okay", "ok", "right", "of course"}:
        return "Good. What would you like to know?"
    if word in {"no", "nope", "not really", "no no"}:
        return "All right. Just tell me when you need something."
    return None


def help_asked(scene: Scene, sentence: str) -> str | None:
    """What can be asked for, the session's tools included."""
    if not _HELP.search(sentence):
        return None
    tools = ", ".join(re.sub(r"[_-]+", " ", tool.name) for tool in scene.tools[:3])
    also = f" I can also use {tools}." if tools else ""
    return (
        "I can tell you the time and the date, do sums, convert units, count, tell a story, "
        f"remember your name, and repeat what I said.{also}"
    )
