"""The index: one row for each readable record, in Parquet, one file for each session.

Numbers, types and times are in the clear, for DuckDB, Polars and the like. Words are sealed with the session's key,
unless the operator has them written in the clear: destroying the key erases them from every copy of the index, too.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ..log.api import Entry
from ..reading.errors import ReadingError
from ..reading.records import input_line, output_line
from .files import Files
from .keystore import KeyDestroyed, KeyStore
from .layout import Manifest
from .sealing import seal, unseal

FOLDER = "index"


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ReadingError("the index needs pyarrow: install duplex-es[archive]") from error
    return pyarrow, pyarrow.parquet


def schema() -> Any:
    """The columns. ``audio_ms`` is the answer's sound, ``caller_ms`` the caller's that the record decided on."""
    arrow, _ = _arrow()
    text, whole = arrow.string(), arrow.int64()
    return arrow.schema(
        [
            ("session", text), ("incarnation", whole), ("created", arrow.timestamp("ms", "UTC")), ("life", text),
            ("model", text), ("caller", text), ("stream", text), ("entry", text), ("claim", whole), ("seq", whole),
            ("at", arrow.timestamp("ms", "UTC")), ("since_ms", whole), ("type", text), ("facts", arrow.list_(text)),
            ("turn", whole), ("response", text), ("item", text), ("status", text), ("reason", text),
            ("audio_ms", whole), ("caller_ms", whole), ("audio_bytes", whole), ("body_bytes", whole),
            ("text", text), ("text_sealed", arrow.binary()), ("generation", whole),
        ]
    )  # fmt: skip


class Rows:
    """Turns records into rows."""

    def __init__(self, manifest: Manifest, key: bytes, *, clear_text: bool) -> None:
        self._key, self._clear, self._life = key, clear_text, manifest.life
        self._same = {
            "session": manifest.session_id,
            "incarnation": manifest.incarnation,
            "created": manifest.created_ms,
            "life": manifest.life.name,
            "model": manifest.model,
            "caller": manifest.callers[0] if manifest.callers else None,
            "generation": manifest.generation,
        }
        self._turn: int | None = None
        self._start_ms: int | None = None

    def input(self, entry: Entry) -> dict[str, Any]:
        """The row of an input record."""
        line = input_line(entry)
        said = line.said
        row = {"type": line.type, "response": _text(said, "response_id"), "item": _text(said, "item_id")}
        return self._row("input", entry, line.at_ms, words_in(said), row | {"reason": _text(said, "reason")})

    def output(self, entry: Entry) -> dict[str, Any]:
        """The row of an output record."""
        line = output_line(entry)
        frame, facts = line.frame or {}, line.facts
        commits = [fact["turn_id"] for fact in facts if isinstance(fact.get("turn_id"), int)]
        self._turn = commits[-1] if commits else self._turn
        response, item = _map(frame.get("response")), _map(frame.get("item"))
        row = {
            "seq": entry.id.number,
            "type": frame.get("type"),
            "facts": [str(fact.get("fact")) for fact in facts],
            "turn": self._turn,
            "response": _text(frame, "response_id") or _text(response, "id"),
            "item": _text(frame, "item_id") or _text(item, "id"),
            "status": _text(response, "status") or _text(item, "status"),
            "reason": _text(frame, "reason") or _text(response.get("status_details"), "reason"),
            "audio_ms": _sound_ms(facts, "AudioProduced"),
            "caller_ms": _sound_ms(facts, "AudioAppended"),
        }
        return self._row("output", entry, line.at_ms, words_in(frame), row)

    def _row(self, stream: str, entry: Entry, at_ms: int, words: str, row: dict[str, Any]) -> dict[str, Any]:
        self._start_ms = at_ms if self._start_ms is None else self._start_ms
        about = _about(self._life.name, self._same["generation"], stream, str(entry.id))
        return {
            **self._same,
            "stream": stream,
            "entry": str(entry.id),
            "claim": entry.id.generation,
            "at": at_ms,
            "since_ms": at_ms - self._start_ms,
            "audio_bytes": None if entry.audio is None else len(entry.audio),
            "body_bytes": len(entry.body),
            "text": words or None if self._clear else None,
            "text_sealed": seal(self._key, words.encode(), about) if words and not self._clear else None,
            **row,
        }


def words_in(plain: dict[str, Any]) -> str:
    """What a record says in words."""
    said = [plain.get(name) for name in ("transcript", "text", "delta", "arguments")]
    found = [one for one in said if isinstance(one, str)]
    item = plain.get("item")
    if isinstance(item, dict):
        content = item.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        found += [part[name] for part in parts for name in ("text", "transcript") if isinstance(part.get(name), str)]
        found += [item[name] for name in ("arguments", "output") if isinstance(item.get(name), str)]
    return " ".join(found)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(plain: Any, name: str) -> str | None:
    value = plain.get(name) if isinstance(plain, dict) else None
    return value if isinstance(value, str) else None


def _sound_ms(facts: tuple[dict[str, Any], ...], kind: str) -> int | None:
    pieces = [fact for fact in facts if fact.get("fact") == kind and fact.get("rate_hz")]
    return round(sum(piece["samples"] * 1000 / piece["rate_hz"] for piece in pieces)) if pieces else None


def _about(life: str, generation: Any, stream: str, entry: str) -> bytes:
    return f"{life}.{generation} index {stream} {entry}".encode()


async def build_index(
    manifest: Manifest,
    key: bytes,
    input_entries: AsyncIterator[Entry],
    output_entries: AsyncIterator[Entry],
    *,
    clear_text: bool = False,
) -> bytes:
    """The Parquet file of one life."""
    arrow, _ = _arrow()
    rows = Rows(manifest, key, clear_text=clear_text)
    found = [rows.input(entry) async for entry in input_entries]
    found += [rows.output(entry) async for entry in output_entries]
    return parquet_bytes(arrow.Table.from_pylist(found, schema=schema()))


def parquet_bytes(table: Any) -> bytes:
    """An Arrow table as a Parquet file."""
    _, parquet = _arrow()
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


async def read_index(files: Files, keys: KeyStore, session_id: str | None = None) -> Any:
    """All rows of an archive, or of one id, as one Arrow table, their words opened where the key is still there.

    DuckDB and Polars take it as it is. Raises: ReadingError.
    """
    arrow, parquet = _arrow()
    tables = []
    for path in await asyncio.to_thread(files.names, FOLDER):
        packed = await asyncio.to_thread(files.read, path)
        if packed is None:
            continue
        rows = parquet.read_table(io.BytesIO(packed), schema=schema()).to_pylist()
        if rows and session_id in (None, rows[0]["session"]):
            tables.append(arrow.Table.from_pylist(list(await _opened(rows, keys)), schema=schema()))
    return arrow.concat_tables(tables) if tables else schema().empty_table()


async def _opened(rows: list[dict[str, Any]], keys: KeyStore) -> Iterator[dict[str, Any]]:
    first = rows[0]
    try:
        key = await keys.read(first["session"], first["life"], first["generation"])
    except KeyDestroyed:
        return iter(rows)
    return (row | _words(row, key) for row in rows)


def _words(row: dict[str, Any], key: bytes) -> dict[str, Any]:
    if row["text_sealed"] is None:
        return {}
    about = _about(row["life"], row["generation"], row["stream"], row["entry"])
    words = unseal(key, row["text_sealed"], about, f"the words of {row['life']}, {row['entry']}")
    return {"text": words.decode(), "text_sealed": None}
