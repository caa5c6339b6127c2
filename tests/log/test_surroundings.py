"""What is said about sentinels and clusters, from their answers."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from duplex_es.log.connections import Reply
from duplex_es.log.errors import ConfigurationError
from duplex_es.log.findings import Finding
from duplex_es.log.surroundings import judge_cluster, judge_sentinels

pytestmark = pytest.mark.unit

A = ("10.0.0.1", 7000)


def sentinel(quorum: Reply = b"OK 3 usable Sentinels", **fields: str) -> list[Reply]:
    known = {"ip": "10.0.0.9", "port": "6379", "num-other-sentinels": "2", "quorum": "2"}
    known |= {"down-after-milliseconds": "5000"} | fields
    return [quorum, {name.encode(): value.encode() for name, value in known.items()}]


def by_subject(found: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in found}


def test_three_sentinels_that_agree_are_well() -> None:
    found = by_subject(judge_sentinels("voice", {"a": sentinel(), "b": sentinel(), "c": sentinel()}))
    assert {finding.level for finding in found.values()} == {"ok"}
    assert "3 of 3" in found["sentinels"].found and "5 s" in found["takeover"].found


@pytest.mark.parametrize(
    ("answers", "level", "told"),
    [
        ({"a": None, "b": None}, "failure", "none of 2"),
        ({"a": [ResponseError("No such master"), ResponseError("No such master")]}, "failure", "voice"),
        ({"a": sentinel(ResponseError("NOQUORUM 1 usable"))}, "failure", "NOQUORUM"),
        ({"a": sentinel(), "b": sentinel(port="1")}, "warning", "10.0.0.9:6379 and 10.0.0.9:1"),
        ({"a": sentinel(), "b": None}, "warning", "not b"),
        ({"a": sentinel(**{"num-other-sentinels": "0"})}, "warning", "three sentinels"),
    ],
)
def test_sentinels_that_could_not_act_are_told(answers: dict[str, list[Reply] | None], level: str, told: str) -> None:
    found = by_subject(judge_sentinels("voice", answers))["sentinels"]
    assert found.level == level
    assert told in found.found + found.advice


def test_sentinels_that_would_act_too_late_are_told() -> None:
    found = by_subject(judge_sentinels("voice", {"a": sentinel(**{"down-after-milliseconds": "30000"})}))
    assert found["takeover"].level == "warning"


NODES = b"aaa 10.0.0.1:7000@17000 myself,master - 0 0 5 connected 0-16383"


def cluster(
    slots: Reply = None, nodes: Reply = NODES, state: str = "ok", timeout: Reply = None
) -> dict[str, Finding]:
    whole = [[0, 16383, [b"10.0.0.1", 7000, b"aaa"], [b"10.0.0.2", 7000, b"bbb"]]]
    info = f"cluster_enabled:1\r\ncluster_state:{state}\r\n".encode()
    answers = [slots or whole, nodes, info, timeout or {b"cluster-node-timeout": b"5000"}]
    return by_subject(judge_cluster(answers, A)[1])


def test_a_whole_cluster_with_replicas_is_well() -> None:
    assert {subject: finding.level for subject, finding in cluster().items()} == {
        **dict.fromkeys(("slots", "spares", "migration", "takeover"), "ok")
    }


@pytest.mark.parametrize(
    ("subject", "level", "told", "answers"),
    [
        ("slots", "failure", "100 of 16384", {"slots": [[0, 99, [b"10.0.0.1", 7000, b"aaa"]]]}),
        ("slots", "failure", "state fail", {"state": "fail"}),
        ("spares", "warning", "10.0.0.1:7000", {"slots": [[0, 16383, [b"10.0.0.1", 7000, b"aaa"]]]}),
        ("migration", "warning", "[5->-bbb]", {"nodes": NODES + b" [5->-bbb]"}),
        ("takeover", "warning", "15 s", {"timeout": [b"cluster-node-timeout", b"15000"]}),
    ],
)
def test_what_is_wrong_with_a_cluster_is_told(
    subject: str, level: str, told: str, answers: dict[str, Reply]
) -> None:
    found = cluster(**answers)[subject]
    assert (found.level, told in found.found) == (level, True), found


def test_where_config_is_forbidden_nothing_is_said_of_the_takeover() -> None:
    assert "takeover" not in cluster(timeout=ResponseError("no permission"))


def test_a_server_that_is_no_cluster_is_refused() -> None:
    refusal = ResponseError("This instance has cluster support disabled")
    with pytest.raises(ConfigurationError, match="cluster support disabled"):
        judge_cluster([refusal, refusal, refusal, refusal], A)
