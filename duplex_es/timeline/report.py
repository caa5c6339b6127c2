"""A call as one page that needs nothing else: the timeline's own modules, its styles, and all that they would ask for.

Modules are put into one script: each becomes a function whose imports are the results of others. That holds for the
modules of these pages, which import and export by name at the beginning and the end of a line, not for any module.
"""

from __future__ import annotations

import base64
import gzip
import html
import posixpath
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from ..log.api import Head
from ..reading.records import input_line, line_map, output_line
from ..reading.source import Source
from .builder import TimelineBuilder, rate_of
from .document import Timeline
from .peaks import Tile, tile_ms
from .sound import LANES, Window, lane_of, sounds

CHUNK_MS = 10_000
ENTRY = "timeline/report.js"
STYLES = ("shell/style.css", "timeline/timeline.css")
IMPORT = re.compile(r'^(import|export) ?\{([^}]*)\} ?from ?"([^"]+)";', re.MULTILINE)
DEFAULT = re.compile(r'^import (\w+) from "([^"]+)";$', re.MULTILINE)
DECLARED = re.compile(r"^export ((?:async )?(?:function\*?|class|const|let) (\w+))", re.MULTILINE)
EXPORTED = re.compile(r"export ?\{([^}]*)\};?")
SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)
EXPORTED_DEFAULT = re.compile(r"export default ")

Assets = Callable[[str], str]
"""The text of a file by its name below ``web``."""


async def report(source: Source, head: Head, assets: Assets, *, with_audio: bool = False) -> str:
    """The page of this session. Raises: ReadingError."""
    builder = TimelineBuilder()
    await builder.read(source, head)
    call = builder.call(head)
    document = builder.document(head, call)
    peaks: dict[str, dict[int, str]] = {}
    audio: dict[str, Any] = {}
    for lane in LANES:
        places = lane_of(call, lane)
        tiles: dict[int, Tile] = {}
        chunks = _Chunks(rate_of(one.piece for one in places))
        async for placed, samples in sounds(source, call, lane, places):
            begin_ms, rate_hz = placed.begin_ms, placed.piece.rate_hz
            length_ms = len(samples) * 1_000 / rate_hz
            for number in _touched(begin_ms, length_ms, tile_ms(0)):
                tiles.setdefault(number, Tile(0, number)).add(begin_ms, rate_hz, samples)
            if with_audio:
                chunks.put(begin_ms, rate_hz, samples, length_ms)
        peaks[lane] = {number: _text(bytes(tile.bins)) for number, tile in tiles.items()}
        if with_audio:
            audio[lane] = chunks.packed()
    held = {
        "document": document,
        "peaks": peaks,
        "records": {
            "input": [line_map(input_line(entry)) async for entry in _bare(source, head, "input")],
            "output": [line_map(output_line(entry)) async for entry in _bare(source, head, "output")],
        },
    }
    if with_audio:
        held["audio"] = audio
    return page(document, _text(gzip.compress(msgspec.json.encode(held, enc_hook=str), 6)), assets)


async def _bare(source: Source, head: Head, stream: str) -> AsyncIterator[Any]:
    entries = source.input(head) if stream == "input" else source.output(head)
    async for entry in entries:
        yield entry


def _touched(begin_ms: float, length_ms: float, wide_ms: int) -> range:
    return range(int(begin_ms / wide_ms), int((begin_ms + length_ms) / wide_ms) + 1)


class _Chunks:
    """The sound of a lane in pieces of ten seconds, those that are not silent."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._windows: dict[int, Window] = {}

    def put(self, begin_ms: float, rate_hz: int, samples: Any, length_ms: float) -> None:
        """Sound at its place, in whichever chunks it touches."""
        for number in _touched(begin_ms, length_ms, CHUNK_MS):
            if number not in self._windows:
                self._windows[number] = Window(number * CHUNK_MS, (number + 1) * CHUNK_MS, self._rate_hz)
            self._windows[number].put(begin_ms, rate_hz, samples)

    def packed(self) -> dict[str, Any]:
        """As the page reads it: samples in base64 by the number of their chunk; what is not there is silent."""
        chunks = {number: _text(window.wav()[44:]) for number, window in self._windows.items()}
        return {"rate_hz": self._rate_hz, "chunk_ms": CHUNK_MS, "chunks": chunks}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- one page ------------------------------------------------------------------------------------------------------


def page(document: Timeline, packed: str, assets: Assets) -> str:
    """The whole page; ``packed`` is what it shows, in gzip and base64."""
    title = html.escape(f"{document.session} · duplex_es")
    styles = "\n".join(assets(name) for name in STYLES)
    # Neither may end the element that it stands in.
    script = bundled(ENTRY, assets).replace("</script", "<\\/script")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; media-src blob:"
    return f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="{policy}" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="robots" content="noindex" />
    <title>{title}</title>
    <style>{styles}</style>
  </head>
  <body>
    <noscript><p class="empty">This page needs JavaScript: it draws what happened in a call.</p></noscript>
    <script type="application/gzip+base64" id="call">{packed}</script>
    <script type="module">{script}</script>
  </body>
</html>
"""


def bundled(entry: str, assets: Assets) -> str:
    """``entry`` and all that it imports, as one script."""
    order: list[str] = []
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in texts:
            return
        texts[name] = text = assets(name)
        for found in (*IMPORT.finditer(text), *DEFAULT.finditer(text)):
            visit(_joined(name, found[found.lastindex or 0]))
        order.append(name)

    visit(entry)
    return "const modules = {};\n" + "".join(_wrapped(name, texts[name]) for name in order)


def _joined(name: str, to: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), to))


def _wrapped(name: str, text: str) -> str:
    """A module as an assignment: ``modules["a.js"] = (() => {…; return {…};})();``."""
    exports: list[str] = [f"{found[2]}" for found in DECLARED.finditer(text)]

    def imported(found: re.Match[str]) -> str:
        names = [part.strip().split(" as ") for part in found[2].split(",") if part.strip()]
        origin = f'modules["{_joined(name, found[3])}"]'
        if found[1] == "export":
            exports.extend(f'"{one[-1]}": {origin}["{one[0]}"]' for one in names)
            return ""
        pairs = ", ".join(": ".join(one) for one in names)
        return f"const {{ {pairs} }} = {origin};"

    def exported(found: re.Match[str]) -> str:
        names = [part.strip().split(" as ") for part in found[1].split(",") if part.strip()]
        exports.extend(one[0] if len(one) == 1 else f'"{one[1]}": {one[0]}' for one in names)
        return ""

    text = IMPORT.sub(imported, SOURCE_MAP.sub("", text))
    text = DEFAULT.sub(lambda found: f'const {found[1]} = modules["{_joined(name, found[2])}"]["default"];', text)
    text = DECLARED.sub(lambda found: found[1], text)
    text = EXPORTED.sub(exported, text)
    if EXPORTED_DEFAULT.search(text):
        text = EXPORTED_DEFAULT.sub("const theDefault = ", text)
        exports.append('"default": theDefault')
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exports)} }};\n}})();\n'
