"""Unmodified stock clients, from their registries, hold whole conversations with a running service.

Each program says two spoken questions, talks over an answer, lets the model call a tool and has an answer cut; it
reports every event its client would not accept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.clients.environment import clients_home, heard_out
from tests.clients.tls_front import tls_front
from tests.support.processes import StoreProcess
from tests.support.services import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def url(valkey: StoreProcess) -> Iterator[str]:
    """A gateway and a worker with the model that understands and speaks."""
    clients_home()
    with Deployment(valkey.url, model="cascade") as deployment:
        yield deployment.urls[0]


@pytest.mark.parametrize(
    "program",
    [
        "run_openai.py",
        "run_openai_beta.py",
        "run_openai_agents.py",
        "run_pipecat.py",
        "run_livekit.py",
        "run_pydantic_ai.py",
    ],
)
def test_a_python_client_holds_a_whole_conversation(url: str, program: str) -> None:
    report = heard_out(program, url)
    assert report["ok"], report


def test_upstreams_own_client_holds_one_and_resumes_it(url: str) -> None:
    report = heard_out("run_upstream_duplex_client.py", url, "--version", "0.30.0")
    assert report["ok"], report


def test_the_agents_for_javascript_hold_one(url: str) -> None:
    report = heard_out("run_agents_realtime.mjs", url, str(clients_home() / "node_modules"))
    assert report["ok"], report


def test_the_javascript_library_holds_one_over_tls(url: str, tmp_path: Path) -> None:
    port = urlsplit(url).port
    assert port is not None
    with tls_front(port, tmp_path) as (front, certificate):
        report = heard_out(
            "run_openai_node.mjs",
            f"https://localhost:{front}/v1",
            str(clients_home() / "node_modules"),
            NODE_EXTRA_CA_CERTS=str(certificate),
        )
    assert report["ok"], report
