"""G.711 tables against the standard library's, where there is one, and against their own inverse everywhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from workers import g711

pytestmark = pytest.mark.unit

LAWS = ["g711_ulaw", "g711_alaw"]
EVERY_SAMPLE = np.arange(-32_768, 32_768).astype(np.int16)


@pytest.mark.parametrize("law", LAWS)
def test_every_16_bit_value_gets_the_code_the_standard_library_gives_it(law: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop = pytest.importorskip("audioop", reason="left the standard library with 3.13")
    reference = audioop.lin2ulaw if law == "g711_ulaw" else audioop.lin2alaw
    assert g711.encode(law, EVERY_SAMPLE) == reference(EVERY_SAMPLE.tobytes(), 2)


@pytest.mark.parametrize("law", LAWS)
def test_what_was_coded_once_is_coded_the_same_again(law: str) -> None:
    codes = g711.encode(law, EVERY_SAMPLE)
    assert g711.encode(law, g711.decode(law, codes)) == codes


@pytest.mark.parametrize("law", LAWS)
def test_a_code_is_off_by_at_most_half_a_step_of_its_segment(law: str) -> None:
    values = g711.decode(law, g711.encode(law, EVERY_SAMPLE)).astype(np.int32)
    error = np.abs(values - EVERY_SAMPLE.astype(np.int32))
    inside = np.abs(EVERY_SAMPLE.astype(np.int32)) < 32_000
    assert np.all(error[inside] <= 16 + np.abs(EVERY_SAMPLE[inside].astype(np.int32)) // 31)


@pytest.mark.parametrize("law", LAWS)
def test_silence_is_as_quiet_as_the_law_allows(law: str) -> None:
    assert abs(int(g711.decode(law, bytes([g711.SILENCE[law]]))[0])) <= 8
