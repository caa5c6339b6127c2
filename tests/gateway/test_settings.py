"""One table: flags, variables, documentation."""

from __future__ import annotations

from dataclasses import fields

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
