"""The voice a session speaks with: found where the client says, as the model wants it.

A client names it by a data URL. Addresses and paths are the server's to fetch, so only those are that the operator
allows; nothing is followed that leads elsewhere.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr

from duplex_es.model import ModelRefused, OpenModel
from duplex_es.protocol import ProtocolError, decode_base64, read_wav

from ..pcm import Floats

VOICE_HZ = 16_000
STEP = VOICE_HZ // 10
"""A voice is cut to whole tenths of a second."""
LONGEST_S = 60
MOST_BYTES = 16 * 1024 * 1024
FETCH_S = 10.0

PARAM = "session.ref_audio"
BAD = "invalid_duplex_runtime_config"


def named_voice(request: OpenModel) -> tuple[str, str] | None:
    """What the client wrote, and in which field; the session's own field before those of ``extra_body``."""
    if request.ref_audio:
        return request.ref_audio, PARAM
    for key in ("ref_audio", "tts_ref_audio"):
        voice = request.extra_body.get(key)
        if isinstance(voice, str) and voice:
            return voice, f"session.extra_body.{key}"
    return None


async def reference(request: OpenModel, allowed: Sequence[str]) -> Floats:
    """The voice as (samples,) float32 at ``VOICE_HZ``; empty where none is named. Raises: ModelRefused."""
    named = named_voice(request)
    if named is None:
        return np.zeros(0, np.float32)
    text, param = named
    data = await _fetched(text, param, allowed)
    return await asyncio.to_thread(heard_voice, data, param)


async def _fetched(text: str, param: str, allowed: Sequence[str]) -> bytes:
    if text.startswith("data:"):
        head, comma, body = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise ModelRefused(BAD, f"{param} is a data URL without base64.", param)
        try:
            return decode_base64(body)
        except ValueError:
            raise ModelRefused(BAD, f"{param} is no base64.", param) from None
    if not is_allowed(text, allowed):
        raise ModelRefused(
            BAD, f"{param}: this server fetches no voice from there; send it as a data URL of a WAV file.", param
        )
    try:
        if text.startswith("file:"):
            return await asyncio.to_thread(_read, Path(urllib.parse.unquote(urllib.parse.urlsplit(text).path)))
        return await _download(text)
    except (OSError, ImportError, ValueError) as error:
        reason = f"{param}: the voice cannot be fetched ({type(error).__name__}: {error})."
        raise ModelRefused(BAD, reason, param) from error


def is_allowed(text: str, allowed: Sequence[str]) -> bool:
    """Whether an operator's prefix covers this address; one that climbs out of it by dots does not count."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(text).path)
    if "\\" in text or ".." in path.split("/") or urllib.parse.urlsplit(text).username is not None:
        return False
    return any(text.startswith(prefix) for prefix in allowed)


def _read(path: Path) -> bytes:
    if path.is_symlink() or path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} is a link, or larger than {MOST_BYTES} bytes")
    return path.read_bytes()


async def _download(url: str) -> bytes:
    import httpx  # Only who lets addresses be fetched needs it.

    body = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False) as client,
            client.stream("GET", url) as answer,
        ):
            if answer.status_code != 200:
                raise ValueError(f"the server answers {answer.status_code}")
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    except httpx.HTTPError as error:
        raise OSError(str(error)) from error
    return bytes(body)


def heard_voice(wav: bytes, param: str = PARAM) -> Floats:
    """A WAV file as the model takes it: mono, at ``VOICE_HZ``, whole tenths of a second, the first minute of it.

    Raises: ModelRefused for what is no WAV file, or has not even a tenth of a second.
    """
    try:
        sound, channels, data = read_wav(wav)
    except ProtocolError as error:
        raise ModelRefused(BAD, f"{param}: {error.message}", param) from error
    samples = _decoded(sound.encoding, data, param)
    samples = samples[: samples.size - samples.size % channels].reshape(-1, channels).mean(axis=1)
    samples = samples[: LONGEST_S * sound.sample_rate_hz]
    if sound.sample_rate_hz != VOICE_HZ:
        samples = np.asarray(soxr.resample(samples, sound.sample_rate_hz, VOICE_HZ), np.float32)
    samples = samples[: samples.size // STEP * STEP]
    if not samples.size:
        raise ModelRefused(BAD, f"{param} holds less than 100 ms of sound.", param)
    return np.ascontiguousarray(np.clip(samples, -1.0, 1.0), np.float32)


def _decoded(encoding: str, data: bytes, param: str) -> Floats:
    if encoding == "pcm16":
        return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / np.float32(32768)
    if encoding == "pcm_f32le":
        return np.nan_to_num(np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float32))
    raise ModelRefused(BAD, f"{param} holds {encoding}; send PCM of 16 bits.", param)
