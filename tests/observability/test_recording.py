"""A process that nobody scrapes measures nothing."""

from __future__ import annotations

import pytest

from duplex_es.observability import catalogue
from duplex_es.observability.recording import UNMEASURED

pytestmark = pytest.mark.unit


def test_unmeasured_takes_everything_and_says_nothing() -> None:
    UNMEASURED.count(catalogue.SENT, by=3)
    UNMEASURED.set(catalogue.CONNECTIONS, 3)
    UNMEASURED.observe(catalogue.RESUME, 3)
    UNMEASURED.at_scrape(lambda: pytest.fail("nobody scrapes"))
    assert UNMEASURED.exposition() == b""
