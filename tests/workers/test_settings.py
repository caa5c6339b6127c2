"""Settings of a worker: flags over variables over defaults, each described, none that cannot be."""

from __future__ import annotations

import os
import socket
from dataclasses import fields

import pytest

from workers.retention import Limits
from workers.settings import WorkerSettings, flag, parser, read_settings, settings_table, variable

pytestmark = pytest.mark.unit

NAMES = [option.name for option in fields(WorkerSettings)]
SAMPLES = {
    "redis_url": ("redis://a:1/0", "redis://b:2/0"),
    "name": ("one", "two"),
    "model": ("echo", "scripted"),
    "slots": ("3", "5"),
    "chat_url": ("http://a", "http://b"),
    "health_host": ("0.0.0.0", "127.0.0.2"),
    "otlp_endpoint": ("http://one:4318", "http://two:4318"),
    "health_port": ("8101", "8102"),
    "drain_s": ("1.5", "2.5"),
    "audio_retention_s": ("0", "3600"),
    "audio_retention_bytes": ("0", "1048576"),
    "history_retention_s": ("0", "7200"),
    "history_retention_bytes": ("0", "1048576"),
    "durability": ("memory", "strict"),
    "replicas": ("1", "2"),
    "idle_ttl_s": ("0", "900"),
    "disconnect_grace_s": ("0", "120"),
    "max_session_s": ("900", "0"),
    "log_level": ("debug", "error"),
    "log_format": ("json", "text"),
}


def test_without_anything_said_every_setting_has_its_default() -> None:
    assert read_settings([], {}) == WorkerSettings()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_variable_wins_over_the_default_and_a_flag_over_the_variable(name: str) -> None:
    said, shouted = SAMPLES[name]
    kind = type(getattr(WorkerSettings(), name))
    environment = {variable(name): said}
    assert getattr(read_settings([], environment), name) == kind(said)
    assert getattr(read_settings([flag(name), shouted], environment), name) == kind(shouted)


def test_every_setting_but_what_has_tests_of_its_own_is_tried_above() -> None:
    assert set(SAMPLES) == set(NAMES) - {"model_option", "deployment"}


def test_model_options_come_from_both_and_the_flag_has_the_last_word() -> None:
    environment = {"DUPLEX_ES_MODEL_OPTION": "lead_ms=600,chunk_ms=160"}
    settings = read_settings(["--model-option", "lead_ms=none", "--model-option", "voice=a=b"], environment)
    assert settings.options == {"lead_ms": "none", "chunk_ms": "160", "voice": "a=b"}


def test_a_chat_server_is_an_option_of_the_model() -> None:
    assert read_settings(["--chat-url", "http://chat"], {}).options == {"chat_url": "http://chat"}


@pytest.mark.parametrize("pair", ["lead_ms", "=5"])
def test_a_model_option_that_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(ValueError, match="KEY=VALUE"):
        _ = WorkerSettings(model_option=(pair,)).options


def test_what_is_kept_and_how_sure_the_log_must_be_are_settings_of_the_worker() -> None:
    settings = read_settings(
        ["--history-retention-bytes", "5", "--audio-retention-s", "7", "--durability", "strict"], {}
    )
    assert settings.limits == Limits(audio_s=7.0, history_bytes=5)
    assert (settings.log.durability, settings.log.replicas) == ("strict", 0)
    assert WorkerSettings().limits == Limits()


def test_a_worker_without_a_name_goes_by_its_host_and_process() -> None:
    assert WorkerSettings().worker == f"{socket.gethostname()}-{os.getpid()}"
    assert WorkerSettings(name="w7").worker == "w7"


@pytest.mark.parametrize(
    ("arguments", "environment", "complaint"),
    [
        (["--slots", "many"], {}, "--slots"),
        ([], {"DUPLEX_ES_SLOTS": "many"}, "--slots"),
        (["--slots", "0"], {}, "slots must be at least 1"),
        ([], {"DUPLEX_ES_LOG_FORMAT": "xml"}, "DUPLEX_ES_LOG_FORMAT"),
        (["--log-level", "loud"], {}, "--log-level"),
        (["--health-port", "70000"], {}, "health_port must be from 0"),
        (["--drain-s", "-1"], {}, "drain_s must be"),
        (["--drain-s", "nan"], {}, "drain_s must be"),
        (["--history-retention-s", "-1"], {}, "history_retention_s must be"),
        (["--audio-retention-bytes", "-1"], {}, "audio_retention_bytes must be at least 0"),
        (["--replicas", "-1"], {}, "replicas must be at least 0"),
        ([], {"DUPLEX_ES_DURABILITY": "eternal"}, "DUPLEX_ES_DURABILITY"),
        (["--unheard-of"], {}, "--unheard-of"),
    ],
)
def test_settings_that_cannot_be_end_with_a_usage_line_that_names_them(
    arguments: list[str], environment: dict[str, str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        read_settings(arguments, environment)
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("usage: duplex-es-worker")
    assert complaint in told


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_described_in_the_help_and_in_the_reference(name: str) -> None:
    described = " ".join(parser({}).format_help().split())
    for text in (flag(name), variable(name)):
        assert text in described.replace("- ", "-")
        assert f"`{text}`" in settings_table()
    assert fields(WorkerSettings)[NAMES.index(name)].metadata["help"]


def test_the_reference_has_one_row_for_each_setting() -> None:
    rows = settings_table().strip().splitlines()
    assert len(rows) == 2 + len(NAMES)
    assert all(row.count("|") == 5 for row in rows)
