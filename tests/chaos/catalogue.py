"""All rows of the failure table, in the order in which they are printed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from tests.chaos import table
from tests.chaos.rows import clients, deploys, failover, gateways, links, store, storm, workers
from tests.chaos.table import Row

__all__ = ["MODULES", "ROWS", "chosen", "deck"]

MODULES = (clients, gateways, workers, deploys, store, failover, links, storm)
"""Where the rows are; importing them has entered them into the table."""
ROWS: dict[str, Row] = {
    row.name: row for module in MODULES for row in table.ROWS.values() if row.fault.__module__ == module.__name__
}
"""Every row by its name, in the order of the modules."""


def chosen(names: Iterable[str] = (), *, quick: bool = False) -> list[Row]:
    """The rows of these names, or all. Raises: KeyError for a name that is none."""
    rows = [ROWS[name] for name in names] or list(ROWS.values())
    return [one for one in rows if one.quick or not quick]


def deck(rows: Iterable[Row], seed: str) -> Iterator[Row]:
    """The rows in random order, for ever: shuffled decks, one after the other, with a rare row in every n-th of them.

    The same seed and the same rows give the same order.
    """
    pile = sorted(rows, key=lambda row: row.name)
    if not pile:
        return
    number = 0
    while True:
        draw = random.Random(f"{seed}/deck {number}")
        # Rare rows are spread over the decks, each by its own place in the pile.
        cards = [row for place, row in enumerate(pile) if (number + place) % row.rarity == 0]
        draw.shuffle(cards)
        yield from cards
        number += 1
