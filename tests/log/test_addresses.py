"""URLs of stores: what each part means, and what is said about those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.addresses import Target, parse_store_url
from duplex_es.log.connections import connection_options
from duplex_es.log.errors import ConfigurationError
from duplex_es.log.opening import open_log
from duplex_es.log.settings import LogSettings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("url", ["redis://h", "rediss://u:p@h:1/2?ssl_cert_reqs=none", "unix:///run/redis.sock?db=1"])
def test_a_single_server_is_left_to_redis_py(url: str) -> None:
    assert parse_store_url(url) == Target("server", url)


def test_sentinels_are_named_with_their_service() -> None:
    found = parse_store_url("redis+sentinel://one:1,two,[::1]:3/voice/7")
    assert (found.kind, found.service) == ("sentinel", "voice")
    assert found.addresses == (("one", 1), ("two", 26379), ("::1", 3))
    assert connection_options(found.url, LogSettings())["db"] == 7


def test_credentials_are_those_of_the_stores_and_sentinels_have_their_own() -> None:
    found = parse_store_url(
        "rediss+sentinel://app:s%40cret@h/voice?sentinel_username=watch&sentinel_password=a%26b&ssl_ca_certs=/ca.pem"
    )
    stores = connection_options(found.url, LogSettings())
    sentinels = connection_options(found.sentinel_url, LogSettings())
    assert (stores["username"], stores["password"], stores["ssl_ca_certs"]) == ("app", "s@cret", "/ca.pem")
    assert (sentinels["username"], sentinels["password"], sentinels["ssl_ca_certs"]) == ("watch", "a&b", "/ca.pem")
    assert stores["connection_class"] is sentinels["connection_class"]
    assert "sentinel_password" not in found.url


@pytest.mark.parametrize("url", ["rediss://app@h:1/2", "redis+cluster://app@h", "redis+sentinel://app@h/voice"])
def test_a_password_can_be_in_a_file(url: str, tmp_path: Path) -> None:
    held = tmp_path / "password"
    held.write_text("a&b @?%/\n")
    found = parse_store_url(f"{url}?password_file={held}&ssl_ca_certs=/ca.pem")
    options = connection_options(found.url, LogSettings())
    assert (options["username"], options["password"], options["ssl_ca_certs"]) == ("app", "a&b @?%/", "/ca.pem")
    assert "password_file" not in options


def test_the_sentinels_own_password_can_be_in_a_file(tmp_path: Path) -> None:
    held = tmp_path / "password"
    held.write_text("w&tch")
    found = parse_store_url(f"redis+sentinel://h/voice?sentinel_username=watch&sentinel_password_file={held}")
    sentinels = connection_options(found.sentinel_url, LogSettings())
    assert (sentinels["username"], sentinels["password"]) == ("watch", "w&tch")
    assert "w%26tch" not in found.url


def test_a_password_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"password cannot be read: .*/nothing"):
        parse_store_url(f"redis://h?password_file={tmp_path}/nothing")


def test_nodes_of_a_cluster_are_named_in_a_row() -> None:
    found = parse_store_url("rediss+cluster://app:secret@a:7000,b,c:7002")
    assert (found.kind, found.addresses) == ("cluster", (("a", 7000), ("b", 6379), ("c", 7002)))
    options = connection_options(found.url, LogSettings())
    assert (options["username"], options["password"]) == ("app", "secret")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis+sentinel://h", "/<service>"),
        ("redis+sentinel://h/", "/<service>"),
        ("redis+sentinel://h/voice/first", "/<service>"),
        ("redis+sentinel://h/voice/0/more", "/<service>"),
        ("redis+sentinel:///voice", "no host"),
        ("redis+cluster://", "no host"),
        ("redis+cluster://h/1", "no database"),
        ("redis+cluster://h:port", "h:port"),
        ("redis+cluster://:7000", ":7000"),
        ("redis+ring://h", "unknown scheme"),
        ("http+cluster://h", "unknown scheme"),
        ("http://h", "schemes"),
    ],
)
def test_a_url_that_is_wrong_is_refused_with_what_is_wrong(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        open_log(url)


def test_a_complaint_does_not_repeat_a_password() -> None:
    for url in ("redis+cluster://u:secret@h/9", "redis+sentinel://u:secret@h", "redis+ring://u:secret@h"):
        with pytest.raises(ValueError, match=r"^(?!.*secret)"):
            parse_store_url(url)


@pytest.mark.parametrize("url", ["redis://h", "redis+sentinel://h/voice", "redis+cluster://h"])
def test_an_old_client_is_refused_by_name(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """E28: what this relies on came with version 8."""
    monkeypatch.setattr("redis.__version__", "7.4.0")
    with pytest.raises(ConfigurationError, match=r"redis-py 7\.4\.0 is too old: 8\.0"):
        open_log(url)
