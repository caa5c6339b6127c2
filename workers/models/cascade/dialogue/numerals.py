"""Numbers as people say and write them: "twenty one", "3.5", "1,250"; and back into text."""

from __future__ import annotations

import re
from fractions import Fraction

_UNDER_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: n for n, word in enumerate(_UNDER_TWENTY.split())} | {
    word: 10 * n for n, word in enumerate(_ROUND.split(), 2)
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}

_TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+|[^\W\d_]+(?:'[^\W\d_]+)*|[+*/\u00d7\u00f7=%^\u2212-]", re.UNICODE)

Token = str | Fraction


def tokens_of(text: str) -> list[Token]:
    """Words in lower case, operators, and every number, spelled or written, as one exact fraction."""
    words: list[str] = [match.group() for match in _TOKEN.finditer(text.lower().replace("\u2019", "'"))]
    tokens: list[Token] = []
    at = 0
    while at < len(words):
        value, used = _spelled(words, at)
        if used:
            tokens.append(value)
        elif words[at] in _SCALES:  # "3 million", "a hundred"
            before = tokens[-1] if tokens else ""
            if isinstance(before, Fraction) or before == "a":
                tokens.pop()
            tokens.append((before if isinstance(before, Fraction) else Fraction(1)) * _SCALES[words[at]])
        elif words[at][0].isdigit() or words[at][0] == ".":
            tokens.append(Fraction(words[at].replace(",", "")))
        else:
            tokens.append(words[at])
        at += used or 1
    return tokens


def numbers_in(text: str) -> list[Fraction]:
    """The numbers in a text, in order; "minus" before one makes it negative only in written form ("-5")."""
    found = []
    tokens = tokens_of(text)
    for at, token in enumerate(tokens):
        if isinstance(token, Fraction):
            signed = at > 0 and tokens[at - 1] in {"-", "\u2212"} and (at == 1 or isinstance(tokens[at - 2], str))
            found.append(-token if signed else token)
    return found


def say_number(value: Fraction) -> str:
    """Digits as a voice reads them well: whole numbers whole, others rounded to four places, "minus" in a word."""
    if value < 0:
        return f"minus {say_number(-value)}"
    if value.denominator == 1:
        return f"{value.numerator:,}" if value >= 10_000 else str(value.numerator)
    text = f"{float(value):,.4f}" if value >= Fraction(1, 100) else f"{float(value):.3g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _spelled(words: list[str], at: int) -> tuple[Fraction, int]:
    """The number spelled from ``at`` on, and how many words it took; 0 words when there is none."""
    total, group, used, last = 0, 0, 0, None
    while at + used < len(words):
        word = words[at + used]
        if word in _SMALL and _joins(last, _SMALL[word]):
            last = _SMALL[word]
            group += last
        elif word in _SCALES and used:
            group = max(group, 1) * _SCALES[word]
            if word != "hundred":
                total, group = total + group, 0
            last = _SCALES[word]
        elif word in {"and", "-"} and used and _continues(words, at + used, last, word):
            pass
        else:
            break
        used += 1
    value = Fraction(total + group)
    if used and at + used + 1 < len(words) and words[at + used] == "point" and words[at + used + 1] in _SMALL:
        return _with_decimals(words, at, used, value)
    return value, used


def _joins(last: int | None, value: int) -> bool:
    """Whether ``value`` goes on with the number: "twenty" + "one" and "hundred" + "five" do, "two" + "three" do not."""
    return last is None or last >= 100 or (20 <= last < 100 and 0 < value < 10)


def _continues(words: list[str], at: int, last: int | None, word: str) -> bool:
    following = words[at + 1] if at + 1 < len(words) else ""
    if word == "-":  # twenty-one
        return last is not None and 20 <= last < 100 and 0 < _SMALL.get(following, 0) < 10
    return last is not None and last >= 100 and following in _SMALL  # one hundred and five


def _with_decimals(words: list[str], at: int, used: int, value: Fraction) -> tuple[Fraction, int]:
    digits = ""
    used += 1
    while at + used < len(words) and _SMALL.get(words[at + used], 10) < 10:
        digits += str(_SMALL[words[at + used]])
        used += 1
    return value + Fraction(int(digits), 10 ** len(digits)), used
