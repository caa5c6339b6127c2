"""The public session object: the settings in force, and where the session stands."""

from __future__ import annotations

from ...protocol import AudioFormat, Capabilities, SessionObject
from ...protocol.audio import G711_ALAW, G711_ULAW
from ..state import ZERO_LEDGER, Session, Settings

G711_HZ = 8_000
"""G.711 has one rate, whatever was asked for."""


def session_object(session: Session) -> dict[str, object]:
    """The map of ``session.created`` and ``session.updated``; keys the client sent beyond the known ones below it."""
    settings, live = session.settings, session.response
    item = session.item(live.item_id) if live else None
    shown = SessionObject(
        id=session.id,
        model=settings.model or None,
        state=session.state if session.state != "new" else "open",
        turn_state=session.turn_state,
        epoch=session.epoch,
        turn_id=session.turn_id,
        active_response_id=live.id if live else None,
        active_response_turn_id=live.turn_id if live else None,
        modalities=list(settings.modalities),
        output_modalities=list(settings.modalities),
        instructions=settings.instructions,
        voice=settings.voice,
        response_format=settings.output_format,
        input_audio_format=settings.input_format,
        output_audio_format=settings.output_format,
        audio=_audio(session, settings),
        temperature=settings.temperature,
        max_tokens=settings.max_output_tokens,
        speed=settings.speed,
        idle_timeout_s=settings.idle_timeout_s,
        overlap_policy=settings.overlap_policy,
        overlap_short_ack_ms=settings.overlap_short_ack_ms,
        overlap_barge_in_ms=settings.overlap_barge_in_ms,
        overlap_silence_rms=settings.overlap_silence_rms,
        playback_commit_policy=settings.playback_commit_policy,
        turn_detection=settings.turn_detection,
        input_audio_transcription=settings.input_audio_transcription,
        tracing=settings.tracing,
        playback=item.ledger if item else ZERO_LEDGER,
        capabilities=session.info.capabilities if session.info else Capabilities(),
    )
    ends = {} if session.ends_at_ms is None else {"expires_at": session.ends_at_ms // 1000}
    return shown.to_wire({**settings.extra, **ends, "tools": list(settings.tools), "extra_body": settings.extra_body})


def _audio(session: Session, settings: Settings) -> dict[str, object]:
    """The GA spelling of what is in force, on top of what else the client wrote into its ``audio`` block."""
    out_hz = settings.output_rate_hz or (session.info.output_rate_hz if session.info else 24_000)
    if settings.output_format in (G711_ALAW, G711_ULAW):
        out_hz = G711_HZ
    audio_in: dict[str, object] = {
        "format": AudioFormat(settings.input_format, settings.input_rate_hz).to_wire(),
        "sample_rate_hz": settings.input_rate_hz,
    }
    if settings.turn_detection is not None or "turn_detection" in _mapping(settings.audio.get("input")):
        audio_in["turn_detection"] = settings.turn_detection
    audio_out: dict[str, object] = {"format": AudioFormat(settings.output_format, out_hz).to_wire()}
    if settings.voice is not None:
        audio_out["voice"] = settings.voice
    return {
        **settings.audio,
        "input": {**_mapping(settings.audio.get("input")), **audio_in},
        "output": {**_mapping(settings.audio.get("output")), **audio_out},
    }


def _mapping(said: object) -> dict[str, object]:
    return said if isinstance(said, dict) else {}
