"""Conversions by voice: "how many kilometers are five miles", "convert 70 fahrenheit to celsius"."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from .numerals import Token, say_number, tokens_of


class Unit(NamedTuple):
    """One unit: what it measures, its size in that quantity's first unit, and how it is said."""

    quantity: str
    size: Fraction
    singular: str
    plural: str


def _units(quantity: str, table: str) -> list[Unit]:
    rows = (row.split(":") for row in table.split(","))
    return [Unit(quantity, Fraction(size.strip()), one.strip(), many.strip()) for one, many, size in rows]


_TABLE = [
    *_units("length", "meter:meters:1, kilometer:kilometers:1000, centimeter:centimeters:0.01"),
    *_units("length", "millimeter:millimeters:0.001, mile:miles:1609.344, yard:yards:0.9144"),
    *_units("length", "foot:feet:0.3048, inch:inches:0.0254"),
    *_units("mass", "kilogram:kilograms:1, gram:grams:0.001, pound:pounds:0.45359237"),
    *_units("mass", "ounce:ounces:0.028349523125, ton:tons:1000"),
    *_units("volume", "liter:liters:1, milliliter:milliliters:0.001, gallon:gallons:3.785411784"),
    *_units("volume", "pint:pints:0.473176473, cup:cups:0.2365882365"),
    *_units("time", "second:seconds:1, minute:minutes:60, hour:hours:3600, day:days:86400, week:weeks:604800"),
    *_units("temperature", "degree Celsius:degrees Celsius:1, degree Fahrenheit:degrees Fahrenheit:1"),
]
_BY_WORD = {word: unit for unit in _TABLE for word in (unit.singular, unit.plural)}
_BY_WORD |= {word.replace("meter", "metre").replace("liter", "litre"): unit for word, unit in _BY_WORD.items()}
_BY_WORD |= {
    short: _BY_WORD[word]
    for short, word in {
        "km": "kilometers",
        "cm": "centimeters",
        "mm": "millimeters",
        "kg": "kilograms",
        "kilo": "kilograms",
        "kilos": "kilograms",
        "lbs": "pounds",
        "oz": "ounces",
        "celsius": "degrees Celsius",
        "centigrade": "degrees Celsius",
        "fahrenheit": "degrees Fahrenheit",
    }.items()
}
_ASKS = frozenset({"convert", "how", "what", "what's", "many", "much", "to", "in", "into"})


def answer_conversion(text: str) -> str | None:
    """One spoken sentence with the converted amount, or ``None`` when the text asks for no conversion."""
    tokens = tokens_of(text)
    named = [(at, _BY_WORD[token]) for at, token in enumerate(tokens) if isinstance(token, str) and token in _BY_WORD]
    if len(named) != 2 or not _ASKS.intersection(token for token in tokens if isinstance(token, str)):
        return None
    amounts = [(at, token) for at, token in enumerate(tokens) if isinstance(token, Fraction)]
    source = next(
        ((amount, unit) for place, amount in amounts for at, unit in named if _belongs(tokens, place, at)), None
    )
    if source is None:
        # "How many feet are in a mile": the unit after the first is one of its kind.
        source = (Fraction(1), named[1][1])
    amount, unit = source
    target = next((other for _, other in named if other is not unit), None)
    if target is None:
        return None
    if target.quantity != unit.quantity:
        return f"{_said(Fraction(2), unit).split(' ', 1)[1].capitalize()} cannot be turned into {target.plural}."
    value = _converted(amount, unit, target)
    return f"{_said(amount, unit)} {'is' if amount == 1 else 'are'} {_said(value, target)}."


def _belongs(tokens: list[Token], place: int, at: int) -> bool:
    """A number belongs to the unit that follows it, at most "degrees" in between."""
    return place < at and all(word in {"degrees", "degree"} for word in tokens[place + 1 : at])


def _converted(amount: Fraction, unit: Unit, target: Unit) -> Fraction:
    if unit.quantity != "temperature":
        return amount * unit.size / target.size
    if unit.plural == "degrees Celsius":
        return amount * Fraction(9, 5) + 32
    return (amount - 32) * Fraction(5, 9)


def _said(amount: Fraction, unit: Unit) -> str:
    rounded = Fraction(round(amount * 100), 100) if abs(amount) >= 1 else amount
    return f"{say_number(rounded)} {unit.singular if rounded == 1 else unit.plural}"
