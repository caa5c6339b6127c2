"""Deployment files: what they may say, what wins over them, and those that are delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.deployments import DeploymentUnreadable, read_deployment
from workers.plugins import make_model
from workers.settings import read_settings

pytestmark = pytest.mark.unit

DELIVERED = sorted((Path(__file__).resolve().parents[2] / "deploy/models").glob("*.toml"))
FILE = """
model = "scripted"
session_mode = "duplex"
python = "/opt/model/bin/python"

[duplex_session]
max_sessions = 4
disconnect_grace_s = 30
idle_timeout_s = 300.0

[options]
profile = "minicpmo_4_5"
auto_response = true
chunk_ms = 80
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_the_workers_settings(path: Path) -> None:
    assert read_deployment(path) == {
        "model": "scripted",
        "slots": 4,
        "disconnect_grace_s": 30.0,
        "idle_ttl_s": 300.0,
        "model_option": [
            "profile=minicpmo_4_5",
            "auto_response=yes",
            "chunk_ms=80",
            "python=/opt/model/bin/python",
        ],
    }


def test_flags_win_over_variables_and_variables_over_the_file(path: Path) -> None:
    flags = ["--deployment", str(path), "--slots", "2", "--model-option", "chunk_ms=20"]
    settings = read_settings(flags, {"DUPLEX_ES_SLOTS": "3", "DUPLEX_ES_IDLE_TTL_S": "60"})
    assert (settings.model, settings.slots, settings.idle_ttl_s) == ("scripted", 2, 60.0)
    assert settings.options["chunk_ms"] == "20" and settings.options["profile"] == "minicpmo_4_5"
    named = read_settings([], {"DUPLEX_ES_DEPLOYMENT": str(path)})
    assert (named.slots, named.options["chunk_ms"]) == (4, "80")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('model = "echo"\ncolour = "red"', "colour"),
        ('model = "echo"\n[duplex_session]\nmax_session = 4', "duplex_session.max_session"),
        ('model = "echo"\n[duplex_session]\nmax_sessions = "4"', "duplex_session.max_sessions"),
        ('model = "echo"\n[duplex_session]\nmax_sessions = true', "duplex_session.max_sessions"),
        ('model = "echo"\n[options]\nlist = []', "options.list"),
        ('model = "echo"\noptions = 1', "options is no table"),
        ('model = "echo"\nsession_mode = "chat"', "session_mode"),
        ("model = 1", "model"),
        ("", "model is missing"),
        ("model =", "deployment.toml"),
    ],
)
def test_what_it_may_not_say_is_refused_by_name(path: Path, text: str, names: str) -> None:
    path.write_text(text)
    with pytest.raises(DeploymentUnreadable, match=names):
        read_deployment(path)


def test_a_worker_says_what_is_wrong_with_its_file_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--deployment", str(tmp_path / "none.toml")], {})
    assert "none.toml" in capsys.readouterr().err


@pytest.mark.parametrize("path", DELIVERED, ids=lambda path: path.stem)
def test_a_delivered_file_makes_its_model(path: Path) -> None:
    settings = read_settings(["--deployment", str(path)], {})
    make_model(settings.model, settings.options)
    assert settings.slots >= 1


def test_every_published_model_has_a_file() -> None:
    assert {path.stem for path in DELIVERED} >= {"minicpmo", "nemotron", "qwen3-omni"}
