"""One page that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import json
import re

import pytest

from duplex_es.reading.dxlog import FileSource
from duplex_es.timeline.report import bundled, report
from duplex_es.tools.log.report import asset
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit

MODULES = {
    "a/entry.js": 'import { one, two as other } from "../b/lib.js";\nimport whole from "./whole.mjs";\nrun();\n',
    "a/whole.mjs": "export default function(s){return s}\n//# sourceMappingURL=whole.mjs.map\n",
    "b/lib.js": 'export { two } from "./deep.js";\nexport const one = 1;\nexport async function three() {}\n',
    "b/deep.js": "const x = 2;\nexport{x as two};\n",
}


async def held(*, with_audio: bool = False) -> tuple[str, dict[str, object]]:
    with FileSource(RECORDING) as source:
        page = await report(source, source.head, asset, with_audio=with_audio)
    packed = re.search(r'id="call">([^<]+)<', page)
    assert packed is not None
    return page, json.loads(gzip.decompress(base64.b64decode(packed[1])))


async def test_a_report_holds_the_document_the_records_and_asks_nobody() -> None:
    page, found = await held()
    assert found["document"]["session"] == "call-1"  # type: ignore[index]
    assert (len(found["records"]["input"]), len(found["records"]["output"])) == (32, 174)  # type: ignore[index]
    assert "audio" not in found
    assert not re.search(r'(?:src|href)="(?!#)[^"]*(?:\.js|\.css|//)', page.split("<script")[0])
    assert "default-src 'none'" in page
    script = page.rsplit('<script type="module">', 1)[1]
    assert not re.search(r"^\s*(?:import|export)\b", script, re.MULTILINE)


async def test_with_sound_it_holds_the_sound_of_every_lane() -> None:
    _, found = await held(with_audio=True)
    lane = found["audio"]["heard"]  # type: ignore[index]
    assert lane["rate_hz"] == 24_000
    assert any(base64.b64decode(lane["chunks"]["0"])[2 * 24 * 2_400 :][:2_000])


def test_modules_are_put_in_the_order_of_their_imports_with_their_names() -> None:
    made = bundled("a/entry.js", MODULES.__getitem__)
    order = re.findall(r'^modules\["([^"]+)"\] =', made, re.MULTILINE)
    assert order.index("b/deep.js") < order.index("b/lib.js") < order.index("a/entry.js")
    assert 'const { one, two: other } = modules["b/lib.js"];' in made
    assert 'const whole = modules["a/whole.mjs"]["default"];' in made
    assert '"two": modules["b/deep.js"]["two"]' in made
    assert 'return { "two": x };' in made
    assert "const theDefault = function(s)" in made
    assert "sourceMappingURL" not in made
