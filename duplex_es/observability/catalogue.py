"""Every metric family, in one place: its name, unit, labels and meaning. The reference is generated from it.

Names follow Prometheus: one prefix, base units, ``_total`` for counters. No label takes its value from a client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FAST_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Buckets for what a machine does by itself."""
HEARD_S = (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Buckets for what a caller hears: people notice 200 ms, mind 500 and give up after a few seconds."""
FRAMES_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.16, 0.32, 0.64, 1.0, 2.0)
"""Buckets around the 80 ms of a model's frame."""
WAITS_S = (0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets for what takes its time: admission, opening a model, taking a session over."""


@dataclass(frozen=True, eq=False, slots=True)
class Family:
    """One metric family. ``labels`` are in the order in which their values are handed over."""

    name: str
    text: str
    labels: tuple[str, ...] = ()


class Counter(Family):
    """Only goes up."""


class Gauge(Family):
    """Goes both ways."""


@dataclass(frozen=True, eq=False, slots=True)
class Histogram(Family):
    """Observations in buckets; ``buckets`` are upper bounds in the unit of the name."""

    buckets: tuple[float, ...] = field(default=FAST_S)


_FAMILIES: list[Family] = []


def _kept(family: Any) -> Any:
    _FAMILIES.append(family)
    return family


def _counter(name: str, text: str, *labels: str) -> Counter:
    counter: Counter = _kept(Counter(name, text, labels))
    return counter


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    gauge: Gauge = _kept(Gauge(name, text, labels))
    return gauge


def _histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = FAST_S) -> Histogram:
    histogram: Histogram = _kept(Histogram(name, text, labels, buckets))
    return histogram


# -- every program -----------------------------------------------------------------------------------------------------

BUILD_INFO = _gauge("duplex_build_info", "1; the labels say what runs here", "component", "version", "python")
READY = _gauge("duplex_ready", "1 while new work may be sent here, as `/readyz` says", "component")
DRAINING = _gauge("duplex_draining", "1 from the signal to stop until the process ends", "component")
LOOP_LAG = _histogram("duplex_loop_lag_seconds", "how much too late the event loop wakes a timer up")

LOG_UP = _gauge("duplex_log_up", "1 while the store answers this process")
LOG_APPEND = _histogram(
    "duplex_log_append_seconds", "from handing records over to knowing that they are in the log", "stream"
)
LOG_RECORDS = _counter("duplex_log_records_total", "records appended", "stream")
LOG_BYTES = _counter("duplex_log_bytes_total", "bytes of the records appended, sound included", "stream")
LOG_PIPELINES = _counter("duplex_log_pipelines_total", "pipelines that carried appends; few for many records is good")
LOG_CALL = _histogram("duplex_log_call_seconds", "one rare operation of the log, as its caller waits for it", "op")
LOG_DELIVERY = _histogram(
    "duplex_log_delivery_seconds", "from the notification's arrival to whoever reads the stream taking it", "stream"
)
LOG_BEHIND = _counter(
    "duplex_log_behind_total", "times a reader fell so far behind that it goes on from the stored stream", "stream"
)
LOG_HEALED = _counter("duplex_log_healed_records_total", "records that the store had lost and was given again")
LOG_RECONNECTS = _counter("duplex_log_reconnects_total", "connections to the store made anew, by what for", "purpose")
LOG_ERRORS = _counter("duplex_log_errors_total", "calls of the log that ended in an error, by its kind", "kind")
LOG_PERSIST = _histogram(
    "duplex_log_persist_seconds", "from asking to the store's word that what was written would survive a lost node"
)

# -- gateways ----------------------------------------------------------------------------------------------------------

CONNECTIONS = _gauge("duplex_gateway_connections", "sockets that are open, whatever they do")
ATTACHED = _gauge("duplex_gateway_sessions", "sockets that hold a session, by its model", "model")
ACCEPTED = _counter("duplex_gateway_accepted_total", "sockets accepted")
CLOSED = _counter(
    "duplex_gateway_closes_total", "sockets that ended, by WebSocket close code and what led to it", "code", "cause"
)
OPENINGS = _counter(
    "duplex_gateway_openings_total", "wishes for a session: `opened`, or the error code of the refusal", "outcome"
)
OPENING = _histogram(
    "duplex_gateway_opening_seconds", "from the wish to `session.created`", "model", buckets=WAITS_S
)
RESUMES = _counter(
    "duplex_gateway_resumes_total",
    "wishes to resume: `resumed`, `replayed` for a session that is over, or the error code of the refusal",
    "outcome",
)
RESUME = _histogram(
    "duplex_gateway_resume_seconds", "from the wish to resume until the client has all it missed", buckets=WAITS_S
)
REPLAYED = _counter("duplex_gateway_replayed_frames_total", "frames sent again, or late, after a resume")
ADMISSION_WAIT = _histogram(
    "duplex_gateway_admission_wait_seconds", "how long openings and resumes stood at the gate", "kind", buckets=WAITS_S
)
ADMISSION_WAITING = _gauge("duplex_gateway_admission_waiting", "openings and resumes that stand at the gate now")
RECEIVED = _counter("duplex_gateway_events_received_total", "client events read from sockets")
RECEIVED_BYTES = _counter("duplex_gateway_received_bytes_total", "bytes of text frames read from sockets")
SENT = _counter("duplex_gateway_events_sent_total", "server events written to sockets")
SENT_BYTES = _counter("duplex_gateway_sent_bytes_total", "bytes of text frames written to sockets")
SEND_DELAY = _histogram(
    "duplex_gateway_delivery_seconds",
    "from the session's decision to its frame leaving for the client, by the clocks of two machines; live frames only",
)
ERRORS = _counter("duplex_gateway_errors_total", "errors told to clients, by code", "code")
BLOCKED = _gauge("duplex_gateway_blocked_clients", "clients that have taken nothing for more than a second")
HELD_BYTES = _gauge(
    "duplex_gateway_buffered_bytes", "`up`: read and not yet in the log; `down`: written and not yet taken", "direction"
)
FENCED = _counter("duplex_gateway_fenced_total", "sockets that lost their session to another one")
DEPARTURES = _counter(
    "duplex_gateway_departures_total", "sockets closed by a drain: `at_turn_end`, or `cut` when its time was up", "how"
)
FLEET_WORKERS = _gauge("duplex_fleet_workers", "workers that live, by model, as this gateway reads the log", "model")
FLEET_SLOTS = _gauge("duplex_fleet_slots", "slots of all workers, `used` and `free`", "model", "state")
FLEET_WAITING = _gauge("duplex_fleet_waiting_sessions", "sessions that wait for a worker", "model")

# -- workers -----------------------------------------------------------------------------------------------------------

SLOTS = _gauge("duplex_worker_slots", "this worker's slots, `used` and `free`", "model", "state")
SESSIONS = _gauge("duplex_worker_sessions", "its sessions, with a socket (`attached`) or without", "model", "state")
MODEL_UP = _gauge("duplex_worker_model_up", "1 while the model is loaded and its engine, if it has one, runs", "model")
MODEL_LOAD = _gauge("duplex_worker_model_load_seconds", "how long loading and warming up took", "model")
CLAIMS = _counter(
    "duplex_worker_claims_total",
    "sessions claimed: `new`, `handed_over` by a worker that stops, or `lost` by one that is gone",
    "model",
    "kind",
)
TAKEOVER = _histogram(
    "duplex_worker_takeover_seconds",
    "from claiming another worker's session to serving it: the log read, the model open",
    "model",
    buckets=WAITS_S,
)
MODEL_OPEN = _histogram("duplex_worker_model_open_seconds", "opening the model for a session", "model", buckets=WAITS_S)
ENDED = _counter(
    "duplex_worker_sessions_ended_total",
    "sessions that left this worker: `closed`, `handed_over`, `cut` by a drain, `fenced`, `given_back` or `failed`",
    "model",
    "how",
)
INPUT_DELAY = _histogram(
    "duplex_worker_input_delay_seconds",
    "from a client's event being read by its gateway to the session deciding on it, by the clocks of two machines",
    "model",
)
DECISION = _histogram(
    "duplex_worker_turn_seconds", "one turn of a session: decide on what is there, write it, act on it", "model"
)
FIRST_AUDIO = _histogram(
    "duplex_worker_first_audio_seconds",
    "from the end of the caller's turn, or the request for an answer, to its first sound",
    "model",
    buckets=HEARD_S,
)
CHUNK_INTERVAL = _histogram(
    "duplex_worker_chunk_interval_seconds", "between two pieces of one answer's sound", "model", buckets=FRAMES_S
)
UNDERRUNS = _counter(
    "duplex_worker_underruns_total", "pieces of sound that came after all before them had been played", "model"
)
BARGE_IN = _histogram(
    "duplex_worker_barge_in_seconds",
    "from the caller starting to speak to the answer being cut, where it is cut",
    "model",
    buckets=HEARD_S,
)
ANSWERS = _counter("duplex_worker_answers_total", "answers that ended, by their status", "model", "status")
CONTINUED = _counter("duplex_worker_answers_continued_total", "answers that went on after a takeover", "model")
TOOL_CALLS = _counter("duplex_worker_tool_calls_total", "functions that the model called", "model")
AUDIO = _counter("duplex_worker_audio_seconds_total", "sound taken in (`in`) and given (`out`)", "model", "direction")
DROPPED = _counter("duplex_worker_dropped_audio_seconds_total", "callers' sound that the model never heard", "model")
TICK = _histogram("duplex_worker_tick_seconds", "the engine's work of one tick, or unit", "model", buckets=FRAMES_S)
TICK_DELAY = _histogram(
    "duplex_worker_tick_delay_seconds", "from when a tick was due to its results", "model", buckets=FRAMES_S
)
LATE_TICKS = _counter("duplex_worker_late_ticks_total", "ticks whose results came a whole period or more late", "model")
TICK_SESSIONS = _gauge("duplex_worker_tick_sessions", "sessions in the last tick", "model")
ENGINE_RESTARTS = _counter("duplex_worker_engine_restarts_total", "engines that died and were started again", "model")

# -- the archive -------------------------------------------------------------------------------------------------------

ARCHIVE_SESSIONS = _gauge(
    "duplex_archive_sessions",
    "sessions in the store, as the last pass found them: `following`, with more to come or to archive, and `archived`",
    "state",
)
ARCHIVED = _counter(
    "duplex_archive_archived_total", "closed sessions that this process put into the archive whole, or found there"
)
ARCHIVE_SEGMENTS = _counter("duplex_archive_segments_total", "segments written", "stream")
ARCHIVE_BYTES = _counter("duplex_archive_bytes_total", "bytes of the segments written, sealed", "stream")
ARCHIVE_BEHIND_RECORDS = _gauge(
    "duplex_archive_behind_records", "output records that the store was seen to have and the archive has not"
)
ARCHIVE_BEHIND = _gauge(
    "duplex_archive_behind_seconds",
    "how long the oldest session that they are of, or that is closed and not archived whole, has been known",
)
ARCHIVE_FAILURES = _counter(
    "duplex_archive_failures_total",
    "sessions that a pass could not archive, or passes that could not be made: `store` or `archive` does not answer; "
    "`erased` and `gone` meanwhile, which are no faults",
    "kind",
)
ARCHIVE_SUCCESS = _gauge(
    "duplex_archive_last_success_timestamp_seconds", "when the last pass without a failure ended, Unix time"
)

FAMILIES: tuple[Family, ...] = tuple(_FAMILIES)
