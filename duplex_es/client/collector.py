"""Every event of a short session, kept: for assertions, and for latency figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from .audio import AudioFormat
from .errors import DuplexSessionClosedError
from .events import DuplexEvent, view
from .figures import rounded_ms
from .timing import AUDIO_DELTAS, SOURCE, TEXT_DELTAS, Observed, Received, audio_duration_ms

POLL_S = 0.02
RECEIVED_AT = "_client_received_at_s"


class Client(Protocol):
    """What is asked of a client here."""

    def events(self) -> AsyncIterator[DuplexEvent]:
        """All events from now on."""

    async def ack_playback(
        self, played_ms: float, *, response_id: str | None = None, item_id: str | None = None
    ) -> None:
        """Report how much was played."""


class EventCollector:
    """Raw events in the order they came, with the moment of each (seconds of ``time.monotonic``). It never forgets.

    ``events`` are copies that carry their moment as ``_client_received_at_s``; ``event_received_at_s`` runs beside
    them. ``response_audio`` has the decoded pieces of each response, ``response_ids`` the order in which they began;
    ``output_sample_rate_hz`` follows the audio deltas.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.event_received_at_s: list[float] = []
        self.response_audio: dict[str, list[bytes]] = {}
        self.response_ids: list[str] = []
        self.output_sample_rate_hz = 24_000

    async def consume(self, client: Client) -> None:
        """Collect what ``client`` hears until its session ends, however it ends."""
        with suppress(DuplexSessionClosedError):
            async for event in client.events():
                self.add(event)

    def add(self, event: Mapping[str, Any] | DuplexEvent, *, received_at_s: float | None = None) -> None:
        """Keep one event, as received now unless said otherwise."""
        at_s = time.monotonic() if received_at_s is None else received_at_s
        raw = {RECEIVED_AT: at_s, **(event.raw if isinstance(event, DuplexEvent) else event)}
        seen = view(raw)
        self.events.append(raw)
        self.event_received_at_s.append(at_s)
        if seen.response_id is None:
            return
        if seen.type == "response.created" and seen.response_id not in self.response_ids:
            self.response_ids.append(seen.response_id)
        if seen.type in AUDIO_DELTAS:
            if piece := seen.audio:
                self.response_audio.setdefault(seen.response_id, []).append(piece)
            self.output_sample_rate_hz = seen.sample_rate_hz or self.output_sample_rate_hz

    # -- what was heard --------------------------------------------------------------------------------------------

    @staticmethod
    def response_id(event: Mapping[str, Any]) -> str | None:
        """The response a raw event belongs to."""
        return view(dict(event)).response_id if "type" in event else None

    def count(self, type: str) -> int:
        """How many events of this type came."""
        return sum(event.get("type") == type for event in self.events)

    def errors(self) -> list[dict[str, Any]]:
        """The error events."""
        return [event for event in self.events if event.get("type") == "error"]

    def audio_bytes(self, response_id: str | None = None) -> bytes:
        """The sound of one response, or of all of them in the order they began."""
        wanted = self.response_ids if response_id is None else [response_id]
        return b"".join(piece for each in wanted for piece in self.response_audio.get(each, ()))

    def response_text(self, response_id: str) -> str:
        """All words of one response, spoken and written."""
        return "".join(
            str(event.get("delta") or "") for event in self._of([response_id]) if event.get("type") in TEXT_DELTAS
        )

    def response_is_done(self, response_id: str) -> bool:
        """Whether its ``response.done`` came."""
        return any(event.get("type") == "response.done" for event in self._of([response_id]))

    def first_received_at(self, *types: str, after_s: float = 0.0) -> float | None:
        """When the first event of these types came, at ``after_s`` or later."""
        return next((at for at, event in self._since(after_s) if event.get("type") in types), None)

    def last_received_at(self, type: str) -> float | None:
        """When the last event of this type came."""
        return next((at for at, event in reversed(list(self._since(0.0))) if event.get("type") == type), None)

    # -- figures ---------------------------------------------------------------------------------------------------

    def timing_summary(
        self,
        *,
        after_s: float,
        input_committed_at_s: float | None = None,
        response_id: str | None = None,
        measurement_origin: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """First text, first audio and cadence of one response (or of all) after ``after_s``, in milliseconds.

        Sections ``stage_metrics``, ``stage0_tokens`` (what the engine says), ``audio_output`` and ``request_metrics``
        (counted from ``input_committed_at_s``, else from ``response.created``); one without data is absent.
        ``measurement_origin`` replaces the words that say from where ``ttft`` and ``ttfp`` are counted.
        """
        received = (
            each for each in self._since(after_s) if response_id is None or self.response_id(each[1]) == response_id
        )
        seen = Observed.of(received)
        summary = seen.engine()
        if seen.audio_at_s:
            summary["audio_output"] = seen.audio_output(input_committed_at_s)
            fallback_ms = self._duration_ms(self.audio_bytes(response_id))
            metrics = seen.request_metrics(input_committed_at_s, fallback_ms, measurement_origin)
            if metrics is not None:
                summary["request_metrics"] = metrics
        return summary

    def global_timing_summary(
        self,
        *,
        after_s: float,
        window_started_at_s: float,
        response_ids: Sequence[str],
        measurement_origin: Mapping[str, str],
    ) -> dict[str, Any]:
        """The same figures over several responses, counted from ``window_started_at_s``; empty without audio."""
        wanted = set(response_ids)
        received = [each for each in self._since(after_s) if self.response_id(each[1]) in wanted]
        seen = Observed.of(received)
        if not seen.audio_at_s:
            return {}
        said_ms: dict[str, float] = {}
        for _, event in received:
            duration_ms = audio_duration_ms(event) if event.get("type") in AUDIO_DELTAS else None
            if duration_ms is not None and (each := self.response_id(event)):
                said_ms[each] = max(said_ms.get(each, 0.0), duration_ms)
        lengths_ms = (
            said_ms[each] if each in said_ms else self._duration_ms(self.audio_bytes(each)) for each in response_ids
        )
        return {
            "source": SOURCE,
            "response_ids": list(response_ids),
            "measurement_origin": dict(measurement_origin),
            "ttft_ms": seen.since_ms(window_started_at_s, seen.first_text_at_s),
            "ttfp_ms": seen.since_ms(window_started_at_s, seen.audio_at_s[0]),
            "audio_generation_ms": rounded_ms(max(0.0, (seen.audio_at_s[-1] - window_started_at_s) * 1000)),
            "audio_duration_ms": rounded_ms(sum(lengths_ms)),
        }

    def _since(self, after_s: float) -> Iterable[Received]:
        pairs = zip(self.event_received_at_s, self.events, strict=True)
        return ((at_s, event) for at_s, event in pairs if at_s >= after_s)

    def _of(self, response_ids: Sequence[str]) -> Iterable[dict[str, Any]]:
        return (event for event in self.events if self.response_id(event) in response_ids)

    def _duration_ms(self, pcm: bytes) -> float:
        return AudioFormat("pcm16", self.output_sample_rate_hz).duration_ms(len(pcm))


async def acknowledge_collected_playback(client: Client, collector: EventCollector) -> None:
    """Report every collected response as played to its end.

    One without sound yet is reported as 0 ms, which keeps its place in the history, unless it is over already.
    """
    audio = AudioFormat("pcm16", collector.output_sample_rate_hz)
    for response_id in collector.response_ids:
        pcm = collector.audio_bytes(response_id)
        if pcm or not collector.response_is_done(response_id):
            played_ms = audio.duration_ms(len(pcm))
            await client.ack_playback(played_ms, response_id=response_id, item_id=f"item_{response_id}")


async def wait_for_condition(predicate: Callable[[], bool], *, timeout_s: float, label: str) -> None:
    """Return once ``predicate`` holds, asked every 20 ms. Raises: TimeoutError that names ``label``."""
    try:
        async with asyncio.timeout(timeout_s):
            while not predicate():
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"no {label} within {timeout_s:g} s") from None
