"""The static pages: what is served, under which headers, and what never is."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from gateway.pages import WEB, Pages, listed, page_headers

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
VENDOR = WEB / "shell/vendor"
MODULES = sorted(path for path in WEB.rglob("*.js"))


@pytest.fixture(scope="module")
def client() -> TestClient:
    """A browser's view of the pages, without a gateway around them."""
    pages = Pages(gateways=["ws://10.0.0.7:8099", "wss://voice.example"], default_model="echo")
    return TestClient(Starlette(routes=pages.routes))


def test_the_talk_page_is_at_the_root_and_all_it_names_is_there(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(named) >= 4
    assert [(name, client.get(name).status_code) for name in named] == [(name, 200) for name in named]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(WEB)))
def test_every_module_imports_only_what_is_served(client: TestClient, path: Path) -> None:
    for name in re.findall(r'^(?:import|export)[^"\n]*(?:\n[^"]*?)?from "([^"]+)"', path.read_text(), re.MULTILINE):
        assert name.startswith("."), f"{name}: no import map, so names are relative"
        target = (path.parent / name).resolve().relative_to(WEB.resolve())
        answer = client.get(f"/web/{target}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("name", ["nothing.js", "%2e%2e/app.py", "..%2f..%2fpyproject.toml", "talk", "talk/", ""])
def test_what_is_not_a_file_of_the_pages_is_not_found(client: TestClient, name: str) -> None:
    answer = client.get(f"/web/{name}")
    assert answer.status_code == 404
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_page_loads_and_connects_to_nothing_but_this_deployment(client: TestClient) -> None:
    policy = dict(part.split(" ", 1) for part in client.get("/").headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://10.0.0.7:8099 wss://voice.example"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_no_page_holds_a_script_or_a_style_of_its_own() -> None:
    for path in WEB.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son\w+=", text), path


def test_no_page_names_another_host() -> None:
    for path in WEB.rglob("*"):
        if path.suffix in (".html", ".css", ".js"):
            found = set(re.findall(r"\b(?:https?|wss?)://[\w.-]+", path.read_text())) - {"http://www.w3.org"}
            assert found == set(), path


def test_a_browser_asks_again_and_is_told_that_nothing_changed(client: TestClient) -> None:
    first = client.get("/web/shell/style.css")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/web/shell/style.css", headers={"If-None-Match": f'W/{first.headers["etag"]}, "other"'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/web/shell/style.css", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_file_is_sent_in_gzip_to_those_who_take_it(client: TestClient) -> None:
    plain = client.get("/web/shell/style.css", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with client.stream("GET", "/web/shell/style.css", headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 2


def test_the_page_is_told_the_other_gateways_and_the_default_model(client: TestClient) -> None:
    answer = client.get("/web/config.json")
    assert answer.json() == {"gateways": ["ws://10.0.0.7:8099", "wss://voice.example"], "default_model": "echo"}
    assert answer.headers["cache-control"] == "no-store"


def test_only_files_that_browsers_need_are_served(tmp_path: Path) -> None:
    for name in ("talk/index.html", "shell/icon.svg", "notes.md", "secret.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    client = TestClient(Starlette(routes=Pages(tmp_path).routes))
    assert client.get("/").status_code == 200
    assert {client.get(f"/web/{name}").status_code for name in ("notes.md", "secret.py")} == {404}


def test_a_page_that_does_not_exist_is_a_fault_of_the_program() -> None:
    with pytest.raises(KeyError):
        Pages().document("talk/missing.html")


@pytest.mark.parametrize(
    "address", ["http://a", "ws://", "a:8099", "ws://a b", "ws://a;script-src", "ws://user@a", "ws://'self'"]
)
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    with pytest.raises(ValueError, match="is no address of a gateway"):
        page_headers([address])
    with pytest.raises(ValueError, match="is no address of a gateway"):
        listed(f"ws://fine:1,{address}")


def test_addresses_are_separated_by_commas() -> None:
    assert listed(" ws://a:1/v1/realtime , wss://b,") == ["ws://a:1/v1/realtime", "wss://b"]
    assert listed("") == []


def test_the_vendored_framework_is_what_was_published() -> None:
    recorded = json.loads((VENDOR / "vendor.json").read_text())
    assert set(recorded) == {path.name for path in VENDOR.glob("*.mjs")}
    for name, entry in recorded.items():
        text = (VENDOR / name).read_text()
        for change in entry["changes"]:
            assert text.count(change["to"]) == 1
            text = text.replace(change["to"], change["from"])
        assert hashlib.sha256(text.encode()).hexdigest() == entry["sha256_in_archive"], name
        assert entry["archive_integrity"].startswith("sha512-")
        licence = entry["licence"].split(", ")[1]
        assert (ROOT / licence).stat().st_size > 500
