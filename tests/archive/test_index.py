"""The index: what analysts ask, and nobody's words without a key."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from duplex_es.archive.index import parquet_bytes, read_index, schema, words_in
from duplex_es.archive.writing import Archiver
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.source import LiveSource
from tests.support.archives import ANSWERED, ASKED, CALLER, OPERATOR_KEY, Shelf, archived, only_life, planted_call

pytestmark = pytest.mark.unit


@pytest.fixture
async def shelf(tmp_path: Path) -> Shelf:
    shelf, log = Shelf(tmp_path), MemoryLog()
    for name in ("call-1", "call-2"):
        await planted_call(log, name)
        await archived(log, shelf, name)
    return shelf


def test_words_are_what_a_record_says() -> None:
    assert (
        words_in({"delta": "a", "item": {"content": [{"text": "b"}, {"transcript": "c"}], "output": "d"}}) == "a b c d"
    )
    assert words_in({"delta": b"sound", "type": "x"}) == ""


async def test_duckdb_reads_the_files_as_they_are(shelf: Shelf) -> None:
    files = f"{shelf.url}/index/*/*.parquet"
    rows = duckdb.sql(
        f"select session, count(*) filter (type = 'response.done') answers, sum(audio_ms) spoken, sum(caller_ms) heard,"
        f" max(turn), any_value(day) from read_parquet('{files}', hive_partitioning = true) group by 1 order by 1"
    ).fetchall()
    assert [row[:5] for row in rows] == [("call-1", 2, 1200, 1200, 1), ("call-2", 2, 1200, 1200, 1)]
    said = duckdb.sql(f"select text, text_sealed from read_parquet('{files}') where text_sealed is not null").fetchall()
    assert said and not any(text or ASKED.encode() in sealed for text, sealed in said)
    (caller,) = duckdb.sql(f"select distinct caller from read_parquet('{files}')").fetchall()[0]
    assert caller == OPERATOR_KEY.digests(CALLER)[0]


async def test_with_the_keys_the_words_are_there_for_duckdb_and_in_a_file(shelf: Shelf, tmp_path: Path) -> None:
    index = await read_index(shelf.files, shelf.keys)
    asked = duckdb.sql(f"select count(distinct session) from index where text like '%{ASKED}1%'").fetchall()
    assert asked == [(2,)]
    assert {row["session"] for row in (await read_index(shelf.files, shelf.keys, "call-2")).to_pylist()} == {"call-2"}
    (tmp_path / "x.parquet").write_bytes(parquet_bytes(index))
    found = duckdb.sql(f"select text from '{tmp_path}/x.parquet' where type like '%transcript.done'").fetchall()
    assert {text for (text,) in found} >= {f"they are {ANSWERED}0 of course"}


async def test_without_its_key_a_session_keeps_its_numbers_and_no_word(shelf: Shelf) -> None:
    name = next(one.life for one in await shelf.source.manifests("call-1"))
    await shelf.keys.destroy("call-1", name.name, 1)
    rows = (await read_index(shelf.files, shelf.keys)).to_pylist()
    assert {row["session"] for row in rows if row["text"]} == {"call-2"}
    assert {row["session"] for row in rows if row["audio_ms"]} == {"call-1", "call-2"}


async def test_words_are_written_in_the_clear_only_where_that_is_wanted(tmp_path: Path) -> None:
    shelf, log = Shelf(tmp_path), MemoryLog()
    await planted_call(log)
    await Archiver(shelf.files, shelf.keys, clear_text=True).archive(await only_life(log), LiveSource(log, ""))
    texts = duckdb.sql(
        f"select text, text_sealed from '{shelf.url}/index/*/*.parquet' where text is not null"
    ).fetchall()
    assert any(ASKED in text for text, _ in texts)
    assert all(sealed is None for _, sealed in texts)


async def test_an_empty_archive_has_an_empty_index(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    index = await read_index(shelf.files, shelf.keys)
    assert index.num_rows == 0 and index.schema == schema()
