"""Sums by voice: "what is seven plus five", "20 percent of 50", "the square root of 16". Exact while fractions are."""

from __future__ import annotations

import math
from fractions import Fraction

from .numerals import Token, say_number, tokens_of

_OPERATORS = {
    "plus": "+",
    "+": "+",
    "minus": "-",
    "less": "-",
    "-": "-",
    "\u2212": "-",
    "times": "*",
    "x": "*",
    "\u00d7": "*",
    "*": "*",
    "multiplied by": "*",
    "divided by": "/",
    "over": "/",
    "/": "/",
    "\u00f7": "/",
    "to the power of": "^",
    "^": "^",
    "percent of": "%",
    "% of": "%",
}
_SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by", "^": "to the power of", "%": "percent of"}
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 3}
_PREFIXES = {"half of": Fraction(1, 2), "half": Fraction(1, 2), "twice": Fraction(2), "double": Fraction(2)}
_POLITE = (
    "what what's whats is are the of how much calculate compute tell me and please can could you do would i know "
    "want to result answer hey okay ok so now then a"
)
_BEFORE = frozenset(_POLITE.split())
_AFTER = frozenset(["is", "are", "equal", "equals", "make", "makes", "please", "now", "the"])
BIGGEST = 10**15

Part = Fraction | str


class _NoSum(Exception):
    """The words are not a sum."""


class _Impossible(Exception):
    """A sum, but one without an answer; the message is said."""


def answer_sum(text: str) -> str | None:
    """One spoken sentence with the result, or ``None`` when the text asks for no sum."""
    try:
        parts = _parts(_listed_as_sum(tokens_of(text)))
        value = _evaluate(list(parts))
    except _NoSum:
        return None
    except _Impossible as error:
        return str(error)
    spoken = " ".join(say_number(part) if isinstance(part, Fraction) else _spoken(part) for part in parts)
    spoken = f"the {spoken}" if spoken.startswith("square root") else spoken
    about = "about " if value.denominator > 10_000 else ""
    return f"{spoken[0].upper()}{spoken[1:]} is {about}{say_number(value)}."


def _spoken(part: str) -> str:
    return _SPOKEN.get(part, part)


def _parts(tokens: list[Token]) -> list[Part]:
    """Numbers and operators in order. Raises: _NoSum when other words stand between or around them."""
    parts: list[Part] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if isinstance(token, Fraction):
            parts.append(token)
            at += 1
            continue
        phrase, used = _phrase(tokens, at)
        if phrase:
            parts.append(phrase)
        elif token not in (_AFTER if parts else _BEFORE):
            raise _NoSum
        at += used
    _check_operators(parts)
    return parts


def _listed_as_sum(tokens: list[Token]) -> list[Token]:
    """Turn "add two and three" and "the sum of two and three" into "two plus three"."""
    if not {"add", "sum"}.intersection(token for token in tokens if isinstance(token, str)):
        return tokens
    return ["plus" if token == "and" else token for token in tokens if token not in {"add", "sum"}]


def _phrase(tokens: list[Token], at: int) -> tuple[str, int]:
    """The longest operator phrase at this place, and its length; ("", 1) when there is none."""
    for length in (4, 3, 2, 1):
        words = tokens[at : at + length]
        if len(words) < length or not all(isinstance(word, str) for word in words):
            continue
        phrase = " ".join(str(word) for word in words)
        if phrase in _OPERATORS:
            return _OPERATORS[phrase], length
        if phrase in {"square root of", "squared", "cubed", *_PREFIXES}:
            return phrase, length
    return "", 1


def _check_operators(parts: list[Part]) -> None:
    numbers = sum(isinstance(part, Fraction) for part in parts)
    if numbers == 0 or numbers == len(parts):
        raise _NoSum


def _evaluate(parts: list[Part]) -> Fraction:
    value = _expression(parts, 1)
    if parts:
        raise _NoSum
    if abs(value) > BIGGEST:
        raise _Impossible("That number is too big for me to say.")
    return value


def _expression(parts: list[Part], binding: int) -> Fraction:
    """Precedence climbing: consumes ``parts`` from the front."""
    left = _operand(parts)
    while parts and isinstance(parts[0], str) and _BINDING.get(parts[0], 0) >= binding:
        operator = str(parts.pop(0))
        right = _expression(parts, _BINDING[operator] + (operator != "^"))
        left = _apply(operator, left, right)
    return left


def _operand(parts: list[Part]) -> Fraction:
    if not parts:
        raise _NoSum
    first = parts.pop(0)
    if isinstance(first, str):
        if first == "-":
            return -_operand(parts)
        if first in _PREFIXES:
            return _PREFIXES[first] * _operand(parts)
        if first == "square root of":
            return _root(_operand(parts))
        raise _NoSum
    while parts and parts[0] in {"squared", "cubed"}:
        first = first ** (2 if parts.pop(0) == "squared" else 3)
    return first


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise _Impossible("A negative number has no real square root.")
    exact = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return exact if exact * exact == value else Fraction(math.sqrt(value))


def _apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "%":
        return left * right / 100
    if operator == "/":
        if right == 0:
            raise _Impossible("I cannot divide by zero.")
        return left / right
    if right.denominator != 1 or abs(right) > 64 or abs(left) > BIGGEST or (left == 0 and right < 0):
        raise _Impossible("That power is too much for me.")
    return Fraction(left**right.numerator)
