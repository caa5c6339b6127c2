"""A recording of today as the builds of schema version 0 wrote it: ``python -m tests.corpus.downcast FROM TO``.

The one in ``older/`` was made by it once and stays as it is: version 0 is not written any more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from duplex_es.log.api import Entry
from duplex_es.reading.dxlog import FileSource, Manifest, Writer
from duplex_es.session.state import replace


def older(entry: Entry) -> Entry:
    """The record in the layout of version 0."""
    packed = msgspec.msgpack.decode(entry.body, type=dict[str, msgspec.Raw])
    body: dict[str, Any] = {"v": 0, "at_s": msgspec.msgpack.decode(packed["at_ms"]) / 1000}
    for name, value in packed.items():
        if name == "facts":
            facts = msgspec.msgpack.decode(value)
            body["events"] = [{"kind" if key == "fact" else key: one for key, one in fact.items()} for fact in facts]
        elif name not in ("v", "at_ms"):
            body[name] = value
    return Entry(entry.id, msgspec.msgpack.encode(body), entry.audio)


def downcast(source: FileSource, path: Path) -> None:
    """Write ``source`` to ``path``; snapshots, which had a form of their own then, are left out."""
    manifest: Manifest = replace(source.manifest, schema_version=0, made_by="duplex-es 0.0")
    with path.open("wb") as file:
        writer = Writer(file, manifest)
        writer.snapshots([])
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, older(entry))
        writer.finish()


if __name__ == "__main__":
    with FileSource(Path(sys.argv[1])) as found:
        downcast(found, Path(sys.argv[2]))
