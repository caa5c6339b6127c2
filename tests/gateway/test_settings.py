"""One table: flags, variables, documentation."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gateway.settings import Settings, flag, parser, read_settings, settings_table, variable

pytestmark = pytest.mark.unit


def test_flags_win_over_variables_and_those_over_defaults() -> None:
    environment = {"DUPLEX_ES_PORT": "9000", "DUPLEX_ES_REDIS_URL": "redis://elsewhere:1/0"}
    settings = read_settings(["--port", "9001"], environment)
    assert (settings.port, settings.redis_url, settings.config_timeout_s) == (9001, "redis://elsewhere:1/0", 10.0)


def test_every_setting_has_a_flag_a_variable_a_row_and_a_meaning() -> None:
    table, usage = settings_table(), parser({}).format_help()
    for option in fields(Settings):
        if "secret" in option.metadata:
            assert f"| only the variable | `{variable(option.name)}` |" in table
            assert f"{flag(option.name)} " not in usage
        else:
            assert f"| `{flag(option.name)}` | `{variable(option.name)}` |" in table
            assert flag(option.name) in usage
        assert option.metadata["help"]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--port", "many"], {}),
        (["--port", "70000"], {}),
        (["--log-format", "xml"], {}),
        ([], {"DUPLEX_ES_LOG_FORMAT": "xml"}),
        ([], {"DUPLEX_ES_PORT": "many"}),
        (["--config-timeout-s", "-1"], {}),
        (["--drain-s", "nan"], {}),
        (["--admit-at-once", "0"], {}),
        (["--admit-waiting", "-1"], {}),
        (["--replicas", "-1"], {}),
        (["--durability", "eternal"], {}),
        (["--max-event-bytes", "99999999"], {}),
        (["--pages", "maybe"], {}),
        (["--page-gateways", "ws://a:1,http://b"], {}),
        (["--operator-token-file", "/nowhere/at/all"], {}),
        (["--archive", "calls"], {"DUPLEX_ES_OPERATOR_TOKEN": "t" * 16}),
        (["--archive", "calls", "--archive-keys", "keys"], {"DUPLEX_ES_OPERATOR_TOKEN": "t" * 16}),
        ([], {"DUPLEX_ES_OPERATOR_TOKEN": "short"}),
        (["--operator-token", "a-token-of-some-length"], {}),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments, environment)
    assert ended.value.code == 2
    assert "duplex-es-gateway: error:" in capsys.readouterr().err


def test_a_gateway_without_a_name_is_called_by_its_host_and_port() -> None:
    assert Settings(port=8100).gateway.endswith("-8100")
    assert Settings(name="g").gateway == "g"


def test_a_dead_peer_is_noticed_within_thirty_seconds_by_default() -> None:  # E39
    from gateway.liveness import SECOND_LOOK_S

    settings = Settings()
    assert settings.ping_interval_s + settings.ping_timeout_s + SECOND_LOOK_S < 30
    assert settings.ping_timeout_s > 15, "a stall of 15 s must end no call"


def test_the_operator_token_comes_from_a_file_or_the_environment_and_is_not_shown(tmp_path: Path) -> None:
    settings = read_settings([], {"DUPLEX_ES_OPERATOR_TOKEN": "a-token-of-some-length"})
    assert settings.operator_secret() == "a-token-of-some-length"
    assert "a-token-of-some-length" not in repr(settings)
    file = tmp_path / "token"
    file.write_text("another-token-of-length\n")
    assert read_settings(["--operator-token-file", str(file)], {}).operator_secret() == "another-token-of-length"
    assert Settings().operator_secret() is None


def test_an_archive_is_opened_only_where_somebody_may_read_it() -> None:
    named = {"DUPLEX_ES_ARCHIVE": "calls", "DUPLEX_ES_ARCHIVE_KEYS": "keys", "DUPLEX_ES_ARCHIVE_KEY": "k"}
    assert not read_settings([], named).reads_archive
    assert not read_settings(["--archive", "calls"], {}).reads_archive, "keys are not asked for either"
    assert read_settings([], named | {"DUPLEX_ES_OPERATOR_TOKEN": "t" * 16}).reads_archive
    assert "'k'" not in repr(read_settings([], named)), "a key is in no log line"
