"""The document as JSON."""

from __future__ import annotations

import json

import pytest

from duplex_es.reading.dxlog import FileSource
from duplex_es.timeline.builder import TimelineBuilder
from duplex_es.timeline.document import LANES, VERSION, encoded
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_the_document_is_small_and_names_its_version_and_all_lanes() -> None:
    builder = TimelineBuilder()
    with FileSource(RECORDING) as source:
        await builder.read(source, source.head)
        packed = encoded(builder.document(source.head))
    found = json.loads(packed)
    assert found["version"] == VERSION
    assert set(found["marks"]) == set(LANES)
    assert found["caller"][0] == [0, 2000, ">1-2", ">1-11", 10]
    assert len(packed) < 8_000
