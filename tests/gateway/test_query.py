"""The query string of a socket, read as the contract says."""

from __future__ import annotations

import pytest

from gateway.query import Query, read_query

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("parameters", "resume_only"),
    [
        ({}, False),
        ({"resume": " Yes "}, True),
        ({"resume": "0"}, False),
        ({"resume": "maybe"}, False),
        ({"autostart": "off"}, True),
        ({"autostart": "1"}, False),
        ({"autostart": "1", "resume": "on"}, True),
    ],
)
def test_resume_or_no_autostart_rules_out_a_session_by_itself(parameters: dict[str, str], resume_only: bool) -> None:
    query = read_query({"model": "m", **parameters})
    assert (query.resume_only, query.autostarts) == (resume_only, not resume_only)


def test_only_a_resume_that_is_asked_for_counts_as_one() -> None:
    assert read_query({"resume": "1"}).resume
    assert not read_query({"resume": "0", "autostart": "0"}).resume


def test_a_model_is_what_starts_a_session_by_itself() -> None:
    assert not read_query({}).autostarts
    assert not read_query({"model": ""}).autostarts


def test_the_old_name_of_native_duplex_counts_only_without_the_new_one() -> None:
    old = {"minicpmo45_native_duplex": "1"}
    assert read_query(old).native_duplex
    assert not read_query({**old, "native_duplex": "0"}).native_duplex
    assert read_query({"native_duplex": "on"}) == Query(native_duplex=True)


def test_how_much_would_survive_is_told_to_who_asks() -> None:
    assert read_query({"durable": "1"}) == Query(durable=True)
    assert not read_query({"durable": "0"}).durable
