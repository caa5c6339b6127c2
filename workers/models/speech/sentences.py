"""Cuts text into sentences without losing a character, also while the text is still arriving."""

from __future__ import annotations

import re

LONGEST = 220
_END = re.compile(r"[.!?…]+[\"'\u201d\u2019)\]]*\s+|\n+\s*")
_SHORT_FORMS = frozenset(["mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "no", "jr", "sr", "e.g", "i.e"])


def split_sentences(text: str) -> list[str]:
    """``text`` in sentences, each with the white space after it; joined they are ``text`` again."""
    sentences, rest = take_sentences(text)
    return [*sentences, rest] if rest else sentences


def take_sentences(text: str) -> tuple[list[str], str]:
    """The sentences that are surely complete, and the rest. A sentence is complete when white space follows its end.

    One that grows beyond 220 characters is cut after a comma or, failing that, after a word.
    """
    sentences = []
    start = 0
    for match in _END.finditer(text):
        if _is_short_form(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end()])
        start = match.end()
    rest = text[start:]
    while len(rest) > LONGEST:
        cut = max(rest.rfind(", ", 0, LONGEST) + 2, 2)
        cut = cut if cut > LONGEST // 3 else rest.rfind(" ", 0, LONGEST) + 1
        if cut <= 0:
            break
        sentences.append(rest[:cut])
        rest = rest[cut:]
    return sentences, rest


def _is_short_form(before: str) -> bool:
    words = before.split()
    last = words[-1].lower().strip("(\"'") if words else ""
    # "I." and "5." end sentences; "J. K." does not.
    return last in _SHORT_FORMS or (len(last) == 1 and last.isalpha() and last != "i")
