"""What ``duplex-es up`` says about metrics is so: a Prometheus on this machine finds every process there."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.support.up import in_a_row, up

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LOCAL = Path(__file__).resolve().parents[2] / "deploy/prometheus/local.yml"


def test_every_process_shows_its_figures_where_up_says() -> None:
    first = in_a_row(3)[0]
    with up("echo", "--metrics-port", str(first), gateways=2) as service:
        (line,) = (line for line in service.words.splitlines() if "| metrics: " in line)
        told = dict(re.findall(r"(\S+) (http://127\.0\.0\.1:\d+/metrics)", line))
        assert [*told] == ["gw-1", "gw-2", "worker-1"]
        for number, (name, url) in enumerate(told.items()):
            assert url == f"http://127.0.0.1:{first + number}/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                component = "worker" if name.startswith("worker") else "gateway"
                assert f'duplex_build_info{{component="{component}"' in answer.read().decode()


def test_the_file_for_a_local_prometheus_names_the_ports_of_one_gateway_and_one_worker() -> None:
    settings = yaml.safe_load(LOCAL.read_text())
    targets = [target for job in settings["scrape_configs"] for target in job["static_configs"][0]["targets"]]
    assert targets == ["127.0.0.1:9100", "127.0.0.1:9101"]
    assert "duplex-es up --metrics-port 9100" in LOCAL.read_text()
    assert sorted(LOCAL.parent.glob(settings["rule_files"][0])), "no rules there"
