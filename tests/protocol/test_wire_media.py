"""Base64 and pictures: the liberties clients take, and no others."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.protocol import ProtocolError, check_video_frames, decode_audio, decode_base64, strip_data_url

pytestmark = pytest.mark.unit

JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(100)).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode()


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("AAEC", b"\x00\x01\x02"),
        ("AA==", b"\x00"),
        ("AA=", b"\x00"),
        ("AA", b"\x00"),
        ("AAE", b"\x00\x01"),
        (" AA EC\r\n\t", b"\x00\x01\x02"),
        ("AA==\n", b"\x00"),
        ("+/+/", b"\xfb\xff\xbf"),
        ("-_-_", b"\xfb\xff\xbf"),
        ("-_-_AA", b"\xfb\xff\xbf\x00"),
        ("data:audio/wav;base64,AAEC", b"\x00\x01\x02"),
        ("DATA:audio/pcm;rate=16000;BASE64, AAEC", b"\x00\x01\x02"),
        ("data:;base64,-_-_", b"\xfb\xff\xbf"),
    ],
)
def test_the_usual_liberties_are_accepted(text: str, data: bytes) -> None:
    assert decode_base64(text) == data


@pytest.mark.parametrize(
    "text",
    [
        "a===",
        "AAEC=",
        "AA===",
        "=",
        "AA==AA==",
        "A",
        "AAECA",
        "AA*C",
        "AA\u00c9C",
        "\u0410AEC",
        "AA\x00C",
        "+/-_",
        "data:audio/wav,AAEC",
        "data:audio/wav;base64",
        "AA\u00a0EC",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|alphabets|ASCII"):
        decode_base64(text)


@given(st.binary(), st.booleans(), st.booleans(), st.integers(1, 80))
def test_every_legal_spelling_means_the_same_bytes(data: bytes, url_safe: bool, padded: bool, width: int) -> None:
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()
    text = text if padded else text.rstrip("=")
    lines = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    assert decode_base64(lines) == data


def test_a_data_url_is_stripped_only_if_it_is_base64() -> None:
    assert strip_data_url("data:image/png;base64,AAEC") == "AAEC"
    assert strip_data_url("data:text/plain,AAEC") == "data:text/plain,AAEC"
    assert strip_data_url("AAEC") == "AAEC"


@pytest.mark.parametrize(("value", "code"), [("a===", "bad_audio"), (7, "bad_event"), (None, "bad_event")])
def test_wrong_audio_is_refused_by_field(value: object, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_audio(value, param="item.content.audio")
    assert (caught.value.code, caught.value.param) == (code, "item.content.audio")


def test_pictures_lose_their_prefix_and_nulls_stay() -> None:
    assert check_video_frames([None, f"data:image/png;base64,{PNG}", JPEG], 1) == [None, PNG, JPEG]


def test_a_picture_may_be_folded_into_lines() -> None:
    folded = "\n".join(JPEG[at : at + 7] for at in range(0, len(JPEG), 7))
    assert check_video_frames([folded], None) == [folded]


@pytest.mark.parametrize(
    ("frames", "slices", "param"),
    [
        ("text", None, "video_frames"),
        ([JPEG, JPEG, PNG], None, "video_frames"),
        ([JPEG, 5], None, "video_frames[1]"),
        ([base64.b64encode(b"GIF89a").decode()], None, "video_frames[0]"),
        (["*" * 80], None, "video_frames[0]"),
        ([""], None, "video_frames[0]"),
        ([JPEG + "A" * 4_000_000], None, "video_frames[0]"),
        ([JPEG], 2, "max_slice_nums"),
        ([JPEG], True, "max_slice_nums"),
        ([JPEG], "1", "max_slice_nums"),
    ],
)
def test_wrong_pictures_are_refused_by_field(frames: object, slices: object, param: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_video_frames(frames, slices)
    assert (caught.value.code, caught.value.param) == ("invalid_video_frames", param)
