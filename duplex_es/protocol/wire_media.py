"""Audio and pictures as they stand in JSON: base64, with the liberties clients take and no others."""

from __future__ import annotations

import pybase64

from .errors import ProtocolError

MAX_VIDEO_FRAMES = 2
MAX_VIDEO_FRAME_CHARS = 4_000_000

_WHITESPACE = dict.fromkeys(map(ord, " \t\r\n\v\f"))
_URL_SAFE = str.maketrans("-_", "+/")
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_MAGIC_CHARS = 64


def strip_data_url(text: str) -> str:
    """``text`` without a leading ``data:<anything>;base64,``."""
    if text[:5].lower() != "data:":
        return text
    head, comma, body = text.partition(",")
    return body if comma and head.lower().endswith(";base64") else text


def decode_base64(text: str) -> bytes:
    """The bytes of ``text``. White space, missing padding, the URL-safe alphabet and a data-URL prefix are accepted.

    Anything else is refused rather than skipped: a wrong byte would be heard. Raises: ValueError.
    """
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        pass  # not the plain form: normalise and decide again
    plain = strip_data_url(text.strip()).translate(_WHITESPACE)
    if ("-" in plain or "_" in plain) and ("+" in plain or "/" in plain):
        raise ValueError("two base64 alphabets in one text")
    digits = plain.rstrip("=")
    padding = len(plain) - len(digits)
    if len(digits) % 4 == 1 or padding > -len(digits) % 4:
        raise ValueError("a base64 text of this length cannot be")
    return pybase64.b64decode(digits.translate(_URL_SAFE) + "=" * (-len(digits) % 4), validate=True)


def decode_audio(text: object, *, param: str) -> bytes:
    """The audio in ``text``. Raises: ProtocolError ``bad_event`` if it is no string, ``bad_audio`` if no base64."""
    if not isinstance(text, str):
        raise ProtocolError("bad_event", f"{param}: expected a base64 string; send the audio as one.", param)
    try:
        return decode_base64(text)
    except ValueError:
        raise ProtocolError("bad_audio", f"{param}: not base64; nothing was buffered, send it again.", param) from None


def check_video_frames(frames: object, max_slice_nums: object) -> list[str | None]:
    """``frames`` with data-URL prefixes stripped.

    Raises: ProtocolError ``invalid_video_frames`` unless it is a list of base64 JPEG or PNG images and nulls, at most
    2 images of 4,000,000 characters, and ``max_slice_nums`` is ``None`` or 1.
    """
    if max_slice_nums is not None and (max_slice_nums != 1 or isinstance(max_slice_nums, bool)):
        raise _bad_frames("max_slice_nums", "null or 1, pictures are not sliced")
    if not isinstance(frames, list):
        raise _bad_frames("video_frames", "a list of base64 images")
    if sum(frame is not None for frame in frames) > MAX_VIDEO_FRAMES:
        raise _bad_frames("video_frames", f"at most {MAX_VIDEO_FRAMES} images")
    return [_check_frame(frame, f"video_frames[{index}]") for index, frame in enumerate(frames)]


def _check_frame(frame: object, param: str) -> str | None:
    if frame is None:
        return None
    if not isinstance(frame, str):
        raise _bad_frames(param, "a base64 string or null")
    bare = strip_data_url(frame)
    if len(bare) > MAX_VIDEO_FRAME_CHARS:
        raise _bad_frames(param, f"at most {MAX_VIDEO_FRAME_CHARS} characters")
    try:
        head = decode_base64(bare[: 2 * _MAGIC_CHARS].translate(_WHITESPACE)[:_MAGIC_CHARS])
    except ValueError:
        raise _bad_frames(param, "base64") from None
    if not head.startswith(_MAGIC):
        raise _bad_frames(param, "a JPEG or PNG image")
    return bare


def _bad_frames(param: str, rule: str) -> ProtocolError:
    return ProtocolError("invalid_video_frames", f"{param}: expected {rule}; the append was not taken.", param)
