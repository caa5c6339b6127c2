"""The HTTP side of recorded calls: lists, timelines, sound, records and files, for operators only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from duplex_es.log.api import START, Entry, EntryId, Head
from duplex_es.log.errors import LogError, SessionUnknown
from duplex_es.reading.calls import read_call
from duplex_es.reading.divergence import first_divergence, turns_of
from duplex_es.reading.errors import ReadingError, SessionMissing
from duplex_es.reading.notes import Erased
from duplex_es.reading.records import InputLine, OutputLine, input_line, line_map, output_line
from duplex_es.reading.source import LiveSource, Source
from duplex_es.reading.words import json_text
from duplex_es.timeline.builder import position_of
from duplex_es.timeline.peaks import LEVELS

from .archived import WithArchive
from .catalogue import Catalogue, Wanted
from .exporting import exported
from .following import positions
from .operators import PRIVATE, Operators, error
from .service import Service
from .shelf import Busy, OpenCall, Shelf

LONGEST_MS = 60_000
"""The longest window of sound in one answer."""
MOST_RECORDS = 500
FOLLOWERS = 64
ARCHIVED = "X-Duplex-Archived"
"""Says with the timeline that the store has let go of the call."""
PAGE, SOUND_PAGE = 500, 32
"""Small pages: taking one in is a step that nothing else can run in."""

Answer = Callable[[Request], Awaitable[Response]]


class BadQuery(Exception):
    """The query says something that cannot be; ``param`` names what."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class Calls:
    """The routes under ``/v1/sessions`` and ``/v1/operator`` of one gateway."""

    def __init__(self, service: Service, operators: Operators) -> None:
        self._service = service
        self._operators = operators
        live = LiveSource(service.log, "the store", page=PAGE, sound_page=SOUND_PAGE)
        self._archived = None if service.archive is None else WithArchive(live, service.archive)
        self._source: Source = self._archived or live
        self._shelf = Shelf(self._source)
        self._catalogue = Catalogue(self._shelf.source)
        self._followers = 0

    def routes(self) -> list[Route]:
        """All of them; the first that fits answers."""
        one = "/v1/sessions/{session}"
        reading = {
            "/v1/sessions": self.sessions,
            f"{one}/timeline": self.timeline,
            f"{one}/peaks": self.peaks,
            f"{one}/audio": self.audio,
            f"{one}/record": self.record,
            f"{one}/records": self.records,
            f"{one}/events": self.events,
            f"{one}/export": self.export,
            f"{one}/divergence": self.divergence,
        }
        operators = self._operators
        return [
            Route("/v1/operator/session", operators.status, methods=["GET"]),
            Route("/v1/operator/session", operators.sign_in, methods=["POST"]),
            Route("/v1/operator/session", operators.sign_out, methods=["DELETE"]),
            *(Route(path, self._guarded(answer), methods=["GET"]) for path, answer in reading.items()),
        ]

    def _guarded(self, answer: Answer) -> Answer:
        """``answer`` for operators only, with its troubles as HTTP says them."""

        async def guarded(request: Request) -> Response:
            if (refused := await self._operators.refusal(request)) is not None:
                return refused
            if self._service.fault is not None:
                return error(503, "log_unavailable", self._service.fault)
            try:
                return await answer(request)
            except BadQuery as bad:
                return error(400, "invalid_query", f"{bad.param}: {bad}")
            except SessionUnknown:
                return error(404, "session_not_found", "There is no such session in this store.")
            except Erased as erased:
                return error(410, "session_erased", str(erased))
            except SessionMissing as missing:
                return error(404, "session_not_found", str(missing))
            except ReadingError as unreadable:
                return error(422, "unreadable", str(unreadable))
            except LogError as unavailable:
                return error(503, "log_unavailable", f"{type(unavailable).__name__}: {unavailable}")
            except Busy:
                return error(503, "busy", "Too many calls are read at the same time.", {"Retry-After": "1"})

        return guarded

    async def _head(self, request: Request) -> Head:
        """The session that the path names, ``ID`` or ``ID~INCARNATION``."""
        name = request.path_params["session"]
        session_id, mark, incarnation = name.rpartition("~")
        return await self._source.find(f"{session_id}#{incarnation}" if mark and incarnation.isdigit() else name)

    # -- routes ----------------------------------------------------------------------------------------------------

    async def sessions(self, request: Request) -> Response:
        """Sessions, newest first, those that pass every filter."""
        query = request.query_params
        wanted = Wanted(
            text=query.get("q", ""),
            model=query.get("model") or None,
            state=_one_of(query.get("state"), "state", ("waiting", "claimed", "closed")),
            error=query.get("error") in ("1", "true"),
            older_than_s=_number(query.get("older_than_s"), "older_than_s"),
            newer_than_s=_number(query.get("newer_than_s"), "newer_than_s"),
            limit=_whole(query.get("limit"), "limit", 100, 1, 1_000),
        )
        async with self._shelf.reading():
            rows, total = await self._catalogue.listed(wanted)
        found: dict[str, Any] = {"object": "list", "data": rows, "total": total}
        if self._archived is not None:
            found["archive_error"] = self._archived.trouble or None
        return JSONResponse(found, headers=PRIVATE)

    async def timeline(self, request: Request) -> Response:
        """The timeline document; 304 when it is still the one that the client has."""
        head = await self._head(request)
        tag = f'"{position_of(head)}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**PRIVATE, "ETag": tag})
        if (document := await self._shelf.document(head)) is None:
            async with self._shelf.opened(head) as call:
                document, tag = call.document, f'"{call.position}"'
        headers = {**PRIVATE, "ETag": tag, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        if self._archived is not None and self._archived.has(head):
            headers[ARCHIVED] = "1"
        return Response(document, media_type="application/json", headers=headers)

    async def peaks(self, request: Request) -> Response:
        """Tiles of peaks, ``tiles=0,1,2``, one after the other as bytes: one byte a bin."""
        query = request.query_params
        level = _whole(query.get("level"), "level", 0, 0, LEVELS - 1)
        numbers = _numbers(query.get("tiles", "0"))
        async with self._shelf.opened(await self._head(request)) as call:
            lane = _lane(call, query.get("lane", "caller"))
            found = [await call.tile(lane, level, number) for number in numbers]
        return Response(b"".join(found), media_type="application/octet-stream", headers=PRIVATE)

    async def audio(self, request: Request) -> Response:
        """A window of one lane as a WAV, mono; at most a minute."""
        query = request.query_params
        from_ms = _whole(query.get("from_ms"), "from_ms", 0, 0, 10**9)
        to_ms = _whole(query.get("to_ms"), "to_ms", from_ms + 10_000, from_ms + 1, from_ms + LONGEST_MS)
        async with self._shelf.opened(await self._head(request)) as call:
            wav = await call.wav(_lane(call, query.get("lane", "caller")), from_ms, to_ms)
        return Response(wav, media_type="audio/wav", headers=PRIVATE)

    async def record(self, request: Request) -> Response:
        """The raw record at a seq, or at an entry of a stream."""
        query = request.query_params
        head = await self._head(request)
        if "seq" in query:
            stream, number = "output", _whole(query["seq"], "seq", 0, 1, 10**12)
            wanted = EntryId(0, number)
        else:
            stream = _one_of(query.get("stream", "output"), "stream", ("input", "output")) or "output"
            wanted = _entry(query.get("id", ""), "id")
        line = await self._line(head, stream, wanted)
        if line is None:
            return error(404, "record_not_found", f"There is no such record of {stream}: it was trimmed or never was.")
        return Response(json_text(line_map(line), lines=True), media_type="application/json", headers=PRIVATE)

    async def _line(self, head: Head, stream: str, wanted: EntryId) -> InputLine | OutputLine | None:
        if stream == "output":
            async for entry in self._source.output(head, wanted.number - 1, audio=True):
                return output_line(entry) if entry.id.number == wanted.number else None
            return None
        async for entry in self._source.input(head, _before(wanted), audio=True):
            return input_line(entry) if entry.id == wanted else None
        return None

    async def records(self, request: Request) -> Response:
        """Records of a stream after a place, short: for a look at everything within a second."""
        query = request.query_params
        head = await self._head(request)
        limit = _whole(query.get("limit"), "limit", 200, 1, MOST_RECORDS)
        stream = _one_of(query.get("stream", "output"), "stream", ("input", "output"))
        after = _entry(query.get("after", "0-0"), "after")
        source = self._shelf.source
        entries = source.input(head, after) if stream == "input" else source.output(head, after.number)
        rows = []
        async with self._shelf.reading():
            async for entry in entries:
                rows.append(_row(entry, is_input=stream == "input"))
                if len(rows) >= limit:
                    break
        return JSONResponse({"object": "list", "data": rows}, headers=PRIVATE)

    async def events(self, request: Request) -> Response:
        """Server-sent events: where the session is by now, whenever that is another place."""
        head = await self._head(request)
        if self._followers >= FOLLOWERS:
            raise Busy
        service = self._service

        async def followed() -> Any:
            self._followers += 1
            try:
                async for event in positions(
                    self._source, head, request.query_params.get("after", ""), lambda: service.stopping
                ):
                    yield event
            finally:
                self._followers -= 1

        return StreamingResponse(followed(), media_type="text/event-stream", headers=PRIVATE)

    async def export(self, request: Request) -> Response:
        """The session as a ``.dxlog`` file."""
        head = await self._head(request)
        name = f"{head.ref.session_id}-{head.ref.incarnation}.dxlog"
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)  # As the page names it, too.
        headers = {**PRIVATE, "Content-Disposition": f'attachment; filename="{safe}"'}

        async def made() -> Any:
            async with self._shelf.reading():
                async for part in exported(self._shelf.source, head):
                    yield part

        return StreamingResponse(made(), media_type="application/octet-stream", headers=headers)

    async def divergence(self, request: Request) -> Response:
        """Where this session and the one in ``with`` part, and what that made of each turn."""
        head = await self._head(request)
        if not (other := request.query_params.get("with", "")):
            raise BadQuery("with", "name the other session")
        against = await self._source.find(other.replace("~", "#"))
        source = self._shelf.source
        async with self._shelf.reading():
            parted = await first_divergence(source, head, source, against)
            turns = [] if parted is None else turns_of(await read_call(source, head), await read_call(source, against))
        return JSONResponse({"alike": parted is None, "first_divergence": parted, "turns": turns}, headers=PRIVATE)


# -- queries -------------------------------------------------------------------------------------------------------


def _lane(call: OpenCall, name: str) -> str:
    try:
        call.lane(name)
    except ValueError as wrong:
        raise BadQuery("lane", str(wrong)) from wrong
    return name


def _whole(text: str | None, param: str, default: int, least: int, most: int) -> int:
    if text is None or text == "":
        return default
    if not text.isdigit() or not least <= int(text) <= most:
        raise BadQuery(param, f"must be a whole number from {least} to {most}, not {text!r}")
    return int(text)


def _numbers(text: str) -> list[int]:
    found = text.split(",")
    if len(found) > 32 or not all(one.isdigit() and int(one) < 10**6 for one in found):
        raise BadQuery("tiles", "must be up to 32 numbers with commas between")
    return [int(one) for one in found]


def _number(text: str | None, param: str) -> float | None:
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e12:
        raise BadQuery(param, f"must be a number of seconds, not {text!r}")
    return found


def _one_of(text: str | None, param: str, choices: tuple[str, ...]) -> str | None:
    if not text:
        return None
    if text not in choices:
        raise BadQuery(param, f"must be one of {', '.join(choices)}, not {text!r}")
    return text


def _entry(text: str, param: str) -> EntryId:
    try:
        return EntryId.parse(text)
    except ValueError:
        raise BadQuery(param, f"must be an entry as 7-42 is one, not {text!r}") from None


def _before(wanted: EntryId) -> EntryId:
    """The largest id that may be below ``wanted``."""
    if wanted.number > 0:
        return EntryId(wanted.generation, wanted.number - 1)
    return START if wanted.generation <= 1 else EntryId(wanted.generation - 1, 2**53)


def _row(entry: Entry, *, is_input: bool) -> dict[str, Any]:
    if is_input:
        said = input_line(entry)
        return {"id": str(said.id), "at_ms": said.at_ms, "name": said.type, "facts": []}
    shown = output_line(entry)
    name = str((shown.frame or {}).get("type") or "")
    return {
        "id": str(shown.id),
        "at_ms": shown.at_ms,
        "name": name,
        "facts": [str(fact.get("fact")) for fact in shown.facts],
    }
