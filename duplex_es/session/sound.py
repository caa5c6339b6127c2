"""What an append is, before anybody listens to it: its format, its raw samples, and whether it counts as speech."""

from __future__ import annotations

from msgspec import UNSET

from ..protocol import AppendAudio, AudioFormat, ProtocolError, append_format, read_wav
from ..protocol.audio import PCM16, WAV
from .state import Input, Settings


def appended_sound(settings: Settings, command: AppendAudio) -> tuple[AudioFormat, bytes]:
    """The format of one append and its samples, mono, whole; a WAV file is unwrapped.

    Raises: ProtocolError ``unsupported_audio_format`` or ``bad_audio``; the session's buffer is as it was.
    """
    rate_hz = command.sample_rate_hz if isinstance(command.sample_rate_hz, int) else None
    session_format = AudioFormat(settings.input_format, settings.input_rate_hz)
    sound, data, channels = append_format(command.declared_format, rate_hz, session_format), command.audio, 1
    if sound.encoding == WAV:
        sound, channels, data = read_wav(command.audio)
    elif command.channels is not UNSET:
        channels = command.channels
    if channels != 1:
        raise ProtocolError("unsupported_audio_format", f"Audio must be mono, not {channels} channels.", "channels")
    if not data:
        raise ProtocolError("bad_event", "audio is empty; send at least one sample.", "audio")
    unit = sound.bytes_per_sample
    if len(data) % unit:
        rule = f"{sound.encoding} comes in whole samples of {unit} bytes; {len(data)} bytes is not a multiple"
        raise ProtocolError("bad_audio", f"audio: {rule}.", "audio")
    return sound, data


DETECTABLE_HZ = (16_000, 24_000)
"""The rates a turn-based model's detector takes."""


def check_detectable(sound: AudioFormat, heard: Input) -> None:
    """Check that a turn-based model's detector can hear ``sound``: PCM16, and of one rate while nothing is committed.

    Raises: ProtocolError ``bad_audio``; the buffer is as it was.
    """
    if sound.encoding != PCM16 or sound.sample_rate_hz not in DETECTABLE_HZ:
        rule = "with server_vad this model takes mono pcm16 at 16000 or 24000 Hz"
        raise ProtocolError("bad_audio", f"audio: {rule}, not {sound.encoding} at {sound.sample_rate_hz}.", "audio")
    if heard.has_audio and heard.clock.rate_hz != sound.sample_rate_hz:
        rule = f"the rate cannot change from {heard.clock.rate_hz} to {sound.sample_rate_hz} Hz within a turn"
        raise ProtocolError("bad_audio", f"audio: {rule}; clear the buffer first.", "sample_rate_hz")


def silence_rms(settings: Settings, command: AppendAudio) -> float:
    """The loudness in [0, 1] from which this append counts as speech when nobody gave a verdict."""
    if command.overlap_silence_rms is not UNSET:
        return max(0.0, float(command.overlap_silence_rms))
    if command.vad is not UNSET and command.vad.silence_rms is not UNSET:
        return max(0.0, float(command.vad.silence_rms))
    return settings.overlap_silence_rms


def is_speech(settings: Settings, command: AppendAudio, rms: float | None) -> bool:
    """The client's verdict, else whether it is loud enough; audio that could not be measured counts as speech."""
    verdict = command.speech_verdict
    if verdict is not None:
        return verdict
    return rms is None or rms >= silence_rms(settings, command)
