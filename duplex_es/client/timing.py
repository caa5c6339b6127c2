"""What a run of received events says about latency and cadence, as raw measurements: the reader derives the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .figures import finite, interval_summary, rounded_ms

AUDIO_DELTAS = frozenset({"response.output_audio.delta", "response.audio.delta"})
TEXT_DELTAS = frozenset({"response.output_audio_transcript.delta", "response.output_text.delta", "response.text.delta"})
SOURCE = "client_monotonic_receive"
ORIGINS = {
    True: {
        "ttft": "input_audio_buffer.commit sent by the client to first text received",
        "ttfp": "input_audio_buffer.commit sent by the client to first audio received",
    },
    False: {
        "ttft": "response.created received by the client to first text received",
        "ttfp": "response.created received by the client to first audio received",
    },
}

Received = tuple[float, Mapping[str, Any]]
"""When, in seconds of the client's monotonic clock, and the raw event."""


def metadata_of(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The places of an event where a server may have put measurements."""
    response = event.get("response")
    holders = (event, event.get("metadata"), response.get("metadata") if isinstance(response, Mapping) else None)
    for holder in holders:
        if isinstance(holder, Mapping):
            yield holder
            for name in ("vllm_omni", "duplex_event"):
                if isinstance(holder.get(name), Mapping):
                    yield holder[name]


def found_in(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The first object called ``name`` in the event's measurements; empty when there is none."""
    return next((each[name] for each in metadata_of(event) if isinstance(each.get(name), Mapping)), {})


def audio_duration_ms(event: Mapping[str, Any]) -> float | None:
    """How much audio of its response there is up to and with this delta, where the server says it."""
    metadata = event.get("metadata")
    said = finite(metadata.get("audio_duration_ms")) if isinstance(metadata, Mapping) else None
    return None if said is None else max(0.0, said)


def has_words(event: Mapping[str, Any]) -> bool:
    """Whether this is a text delta that says something."""
    return event.get("type") in TEXT_DELTAS and isinstance(event.get("delta"), str) and bool(event["delta"])


def has_sound(event: Mapping[str, Any]) -> bool:
    """Whether this is an audio delta that sounds."""
    sound = event.get("delta") or event.get("audio")
    return event.get("type") in AUDIO_DELTAS and isinstance(sound, str) and bool(sound)


@dataclass(slots=True)
class Observed:
    """One pass over events, seconds throughout. ``audio_ms`` is cumulative, one entry per delta that says it."""

    created_at_s: float | None = None
    first_text_at_s: float | None = None
    audio_at_s: list[float] = field(default_factory=list)
    audio_ms: list[float] = field(default_factory=list)
    stage_metrics: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    server_metrics: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, received: Iterable[Received]) -> Observed:
        """What these events say."""
        seen = cls()
        for at_s, event in received:
            if event.get("type") == "response.created" and seen.created_at_s is None:
                seen.created_at_s = at_s
            if has_words(event) and seen.first_text_at_s is None:
                seen.first_text_at_s = at_s
            if has_sound(event):
                seen.audio_at_s.append(at_s)
                if (duration_ms := audio_duration_ms(event)) is not None:
                    seen.audio_ms.append(duration_ms)
            for stage, metrics in found_in(event, "stage_metrics").items():
                if isinstance(metrics, Mapping):
                    seen.stage_metrics[str(stage)] = metrics
            seen.server_metrics.update(found_in(event, "response_request_metrics"))
        return seen

    def since_ms(self, origin_s: float | None, at_s: float | None) -> float | None:
        """Milliseconds from one moment to the other, where both are known."""
        return None if origin_s is None or at_s is None else rounded_ms((at_s - origin_s) * 1000)

    # -- the sections of a summary ---------------------------------------------------------------------------------

    def engine(self) -> dict[str, Any]:
        """``stage_metrics`` and ``stage0_tokens``, where the deployment attaches them."""
        if not self.stage_metrics:
            return {}
        sections: dict[str, Any] = {"stage_metrics": {stage: dict(each) for stage, each in self.stage_metrics.items()}}
        if (stage := self.stage_metrics.get("0")) is not None:
            raw = stage.get("vllm_itls_ms")
            itls_ms = [value for each in raw if (value := finite(each)) is not None] if isinstance(raw, list) else []
            sections["stage0_tokens"] = {
                "source": "engine_stage_metrics",
                "output_token_count": int(finite(stage.get("num_tokens_out")) or 0),
                "ttft_ms": finite(stage.get("vllm_ttft_ms")) or 0.0,
                "tpot_ms": finite(stage.get("vllm_tpot_ms")) or 0.0,
                "itls_ms": itls_ms,
                "inter_token_interval_ms": interval_summary(itls_ms),
            }
        return sections

    def audio_output(self, committed_at_s: float | None) -> dict[str, Any]:
        """How the sound arrived."""
        intervals_ms = [(late - early) * 1000 for early, late in pairwise(self.audio_at_s)]
        # A smaller total than before is the first of another response.
        lengths_ms = [now - before if now >= before else now for before, now in pairwise([0.0, *self.audio_ms])]
        gaps = interval_summary(intervals_ms)
        return {
            "source": SOURCE,
            "chunk_count": len(self.audio_at_s),
            "response_created_to_first_audio_ms": self.since_ms(self.created_at_s, self.audio_at_s[0]),
            "commit_to_first_audio_ms": self.since_ms(committed_at_s, self.audio_at_s[0]),
            "inter_chunk_interval_ms": gaps,
            "chunk_duration_ms": interval_summary(lengths_ms),
            "max_chunk_gap_ms": gaps["max"],
        }

    def request_metrics(
        self, committed_at_s: float | None, fallback_ms: float, origins: Mapping[str, str] | None
    ) -> dict[str, Any] | None:
        """First text, first packet and length of what was asked for; ``None`` when nobody knows when it was asked.

        The server's own figures go before those seen from here. ``fallback_ms`` is how long the sound is by its bytes.
        """
        origin_s = committed_at_s if committed_at_s is not None else self.created_at_s
        if origin_s is None:
            return None
        named = {**ORIGINS[committed_at_s is not None], **(origins or {})}
        ttft_ms = self.since_ms(origin_s, self.first_text_at_s)
        ttfp_ms = self.since_ms(origin_s, self.audio_at_s[0])
        server = {name: finite(self.server_metrics.get(f"{name}_ms")) for name in ("ttft", "ttfp")}
        told = self.server_metrics.get("measurement_origin")
        for name, value in server.items():
            if value is not None and isinstance(told, Mapping) and isinstance(told.get(name), str):
                named[name] = told[name]
        metrics: dict[str, Any] = {
            "source": "server_request_start_and_client_receive"
            if any(value is not None for value in server.values())
            else SOURCE,
            "measurement_origin": named,
            "ttft_ms": ttft_ms if server["ttft"] is None else server["ttft"],
            "ttfp_ms": ttfp_ms if server["ttfp"] is None else server["ttfp"],
            "audio_generation_ms": rounded_ms(max(0.0, (self.audio_at_s[-1] - origin_s) * 1000)),
            "audio_duration_ms": rounded_ms(max(self.audio_ms, default=fallback_ms)),
        }
        if (stage := self.stage_metrics.get("0")) is not None:
            named["tpot"] = "mean time per output token of stage 0 of the engine"
            metrics["tpot_ms"] = finite(stage.get("vllm_tpot_ms"))
        return metrics
