"""For each alert: series under which it fires, and series under which it does not. Samples are 15 s apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

G, W = 'component="gateway",instance="g:1"', 'component="worker",instance="w:1"'
M = 'model="m",instance="w:1"'
LONG = 60
Series = Mapping[str, str]


class Case(NamedTuple):
    """``sick`` series fire it, ``well`` ones do not, looked at after ``at``."""

    sick: Series
    well: Series
    at: str = "15m"


def flat(value: float) -> str:
    """A gauge that stays, or a counter that does."""
    return f"{value:g}x{LONG}"


def growing(per_step: float) -> str:
    """A counter that grows by so much each 15 s."""
    return f"0+{per_step:g}x{LONG}"


def slow(metric: str, good: float, bad: float, labels: str = 'instance="g:1"') -> Case:
    """Observations above the bucket ``bad``, against some below ``good``."""

    def observed(below: float) -> Series:
        bounds = sorted({0.001, good, bad, 10.0})
        buckets = {
            f'{metric}_bucket{{{labels},le="{bound:g}"}}': growing(30 if bound >= below else 0) for bound in bounds
        }
        return {**buckets, f'{metric}_bucket{{{labels},le="+Inf"}}': growing(30)}

    return Case(observed(10.0), observed(good))


def share(part: str, whole: str, *, rest: str = "", scale: float = 30) -> Case:
    """A counter that is half of another one, and then a thousandth."""
    return Case({part: growing(scale / 2), whole: growing(scale)}, {part: growing(scale / 1000), whole: growing(scale)})


CASES: dict[str, Case] = {
    # -- gateways ----------------------------------------------------------------------------------------------------
    "DuplexNoGateway": Case({f"duplex_ready{{{G}}}": flat(0)}, {f"duplex_ready{{{G}}}": flat(1)}),
    "DuplexGatewayNotReady": Case(
        {f"duplex_ready{{{G}}}": flat(0), f"duplex_draining{{{G}}}": flat(0)},
        {f"duplex_ready{{{G}}}": flat(0), f"duplex_draining{{{G}}}": flat(1)},
    ),
    "DuplexErrorsToClients": Case(
        {'duplex_gateway_errors_total{code="internal_error",instance="g:1"}': growing(2)},
        {'duplex_gateway_errors_total{code="bad_event",instance="g:1"}': growing(2)},
    ),
    "DuplexSessionsRefused": Case(
        {
            'duplex_gateway_openings_total{outcome="duplex_session_busy"}': growing(5),
            'duplex_gateway_openings_total{outcome="opened"}': growing(20),
        },
        {
            'duplex_gateway_openings_total{outcome="duplex_session_busy"}': growing(0.1),
            'duplex_gateway_openings_total{outcome="opened"}': growing(20),
        },
    ),
    "DuplexResumesFail": Case(
        {
            'duplex_gateway_resumes_total{outcome="session_resume_expired"}': growing(5),
            'duplex_gateway_resumes_total{outcome="resumed"}': growing(20),
        },
        {
            'duplex_gateway_resumes_total{outcome="client_closed"}': growing(5),
            'duplex_gateway_resumes_total{outcome="resumed"}': growing(20),
        },
    ),
    "DuplexAdmissionSlow": slow("duplex_gateway_admission_wait_seconds", 0.5, 5, 'kind="open"'),
    "DuplexDeliverySlow": slow("duplex_gateway_delivery_seconds", 0.1, 1),
    "DuplexClientsBlocked": Case(
        {
            'duplex_gateway_blocked_clients{instance="g:1"}': flat(11),
            'duplex_gateway_connections{instance="g:1"}': flat(100),
        },
        {
            'duplex_gateway_blocked_clients{instance="g:1"}': flat(9),
            'duplex_gateway_connections{instance="g:1"}': flat(100),
        },
    ),
    "DuplexLoopLag": slow("duplex_loop_lag_seconds", 0.05, 0.5),
    "DuplexVersionsMixed": Case(
        {'duplex_build_info{version="1"}': f"1x{LONG * 5}", 'duplex_build_info{version="2"}': f"1x{LONG * 5}"},
        {'duplex_build_info{version="1"}': f"1x{LONG * 5}"},
        "65m",
    ),
    # -- workers -----------------------------------------------------------------------------------------------------
    "DuplexNoWorker": Case({'duplex_fleet_workers{model="m"}': flat(0)}, {'duplex_fleet_workers{model="m"}': flat(1)}),
    "DuplexNoFreeSlots": Case(
        {'duplex_fleet_slots{model="m",state="free"}': flat(0), 'duplex_fleet_workers{model="m"}': flat(2)},
        {'duplex_fleet_slots{model="m",state="free"}': flat(1), 'duplex_fleet_workers{model="m"}': flat(2)},
    ),
    "DuplexSessionsWait": Case(
        {'duplex_fleet_waiting_sessions{model="m"}': flat(3)}, {'duplex_fleet_waiting_sessions{model="m"}': flat(0)}
    ),
    "DuplexWorkerNotReady": Case(
        {f"duplex_ready{{{W}}}": flat(0), f"duplex_draining{{{W}}}": flat(0)},
        {f"duplex_ready{{{W}}}": flat(0), f"duplex_draining{{{W}}}": flat(1)},
    ),
    "DuplexModelDown": Case({f"duplex_worker_model_up{{{M}}}": flat(0)}, {f"duplex_worker_model_up{{{M}}}": flat(1)}),
    "DuplexEngineRestarts": Case(
        {f"duplex_worker_engine_restarts_total{{{M}}}": "0x20 1x40"},
        {f"duplex_worker_engine_restarts_total{{{M}}}": flat(1)},
        "6m",
    ),
    "DuplexLateTicks": share(f"duplex_worker_late_ticks_total{{{M}}}", f"duplex_worker_tick_seconds_count{{{M}}}"),
    "DuplexDroppedAudio": Case(
        {f"duplex_worker_dropped_audio_seconds_total{{{M}}}": growing(1)},
        {f"duplex_worker_dropped_audio_seconds_total{{{M}}}": growing(0.01)},
    ),
    "DuplexFirstAudioSlow": slow("duplex_worker_first_audio_seconds", 1, 5, M),
    "DuplexUnderruns": share(
        f"duplex_worker_underruns_total{{{M}}}", f"duplex_worker_chunk_interval_seconds_count{{{M}}}"
    ),
    "DuplexBargeInSlow": slow("duplex_worker_barge_in_seconds", 1, 5, M),
    "DuplexInputDelay": slow("duplex_worker_input_delay_seconds", 0.1, 1, M),
    "DuplexAnswersFail": Case(
        {
            f'duplex_worker_answers_total{{{M},status="failed"}}': growing(2),
            f'duplex_worker_answers_total{{{M},status="completed"}}': growing(20),
        },
        {
            f'duplex_worker_answers_total{{{M},status="failed"}}': growing(0.1),
            f'duplex_worker_answers_total{{{M},status="completed"}}': growing(20),
        },
    ),
    "DuplexSessionsFailed": Case(
        {f'duplex_worker_sessions_ended_total{{{M},how="failed"}}': "0x20 1x40"},
        {f'duplex_worker_sessions_ended_total{{{M},how="closed"}}': "0x20 1x40"},
        "6m",
    ),
    "DuplexSessionsTakenOver": Case(
        {f'duplex_worker_claims_total{{{M},kind="lost"}}': "0x20 1x40"},
        {f'duplex_worker_claims_total{{{M},kind="handed_over"}}': "0x20 1x40"},
        "6m",
    ),
    "DuplexTakeoverSlow": slow("duplex_worker_takeover_seconds", 1, 5, M),
    # -- the log -----------------------------------------------------------------------------------------------------
    "DuplexLogDown": Case({'duplex_log_up{instance="g:1"}': flat(0)}, {'duplex_log_up{instance="g:1"}': flat(1)}),
    "DuplexAppendSlow": slow("duplex_log_append_seconds", 0.05, 0.5, 'stream="input",instance="g:1"'),
    "DuplexLogHealed": Case(
        {'duplex_log_healed_records_total{instance="w:1"}': "0x20 7x40"},
        {'duplex_log_healed_records_total{instance="w:1"}': flat(7)},
        "6m",
    ),
    "DuplexLogReconnects": Case(
        {'duplex_log_reconnects_total{instance="w:1",purpose="call"}': growing(4)},
        {'duplex_log_reconnects_total{instance="w:1",purpose="call"}': "0x20 4x40"},
    ),
    "DuplexLogErrors": Case(
        {'duplex_log_errors_total{instance="w:1",kind="LogUnavailable"}': growing(1)},
        {'duplex_log_errors_total{instance="w:1",kind="Fenced"}': growing(1)},
    ),
    "DuplexPersistSlow": slow("duplex_log_persist_seconds", 0.5, 5),
    "DuplexReadersBehind": Case(
        {'duplex_log_behind_total{instance="g:1",stream="output"}': growing(3)},
        {'duplex_log_behind_total{instance="g:1",stream="output"}': growing(0.1)},
    ),
    # -- the archive -------------------------------------------------------------------------------------------------
    "DuplexArchiveStopped": Case(
        {'duplex_archive_last_success_timestamp_seconds{instance="a:1"}': flat(1_000)},
        {'duplex_archive_last_success_timestamp_seconds{instance="a:1"}': growing(15)},
    ),
}
