"""The pages' own logic, in Node: no browser, no server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "gateway/web"
TESTS = Path(__file__).with_name("js")

# Modules that are nothing without a browser; the tests beside this file use them there.
BROWSER_ONLY = {
    "talk/app.js": "views and hooks",
    "talk/call.js": "joins the parts that have tests",
    "talk/capture-worklet.js": "runs on the audio thread",
    "talk/main.js": "starts the page",
    "talk/microphone.js": "a device",
    "talk/playback-worklet.js": "runs on the audio thread",
    "talk/speaker.js": "a device",
}


def node() -> str:
    """The Node interpreter; without one the test is skipped, and fails where ``CI`` is set."""
    if found := shutil.which("node"):
        return found
    if os.environ.get("CI"):
        pytest.fail("no node: install Node 20 or newer")
    pytest.skip("no node")


def test_every_promise_of_the_modules_is_kept() -> None:
    files = sorted(str(path) for path in TESTS.glob("*.test.mjs"))
    run = subprocess.run([node(), "--test", *files], capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == 0, run.stdout[-6000:]
    assert len(files) >= 12


def test_every_module_of_the_talk_page_has_its_test() -> None:
    modules = {f"talk/{path.name}" for path in (WEB / "talk").glob("*.js")}
    tested = {f"talk/{path.name.removesuffix('.test.mjs')}.js" for path in TESTS.glob("*.test.mjs")}
    assert modules - tested == set(BROWSER_ONLY)


@pytest.mark.parametrize("path", sorted(WEB.rglob("*.js")), ids=lambda path: str(path.relative_to(WEB)))
def test_a_module_can_be_read_in_one_sitting_and_opens_with_what_it_is(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 500
    assert lines[0].startswith("// ")
    assert max(map(len, lines)) <= 140
