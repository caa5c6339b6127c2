"""Words by which a listener says "go on": they do not interrupt whoever speaks."""

from __future__ import annotations

import re

_SHORT = {
    *("yes", "yeah", "yep", "ok", "okay", "continue", "goon", "right", "go on", "keep going", "please continue"),
    *("\u55ef", "\u55ef\u55ef", "\u5bf9", "\u5bf9\u7684", "\u597d", "\u597d\u7684", "\u7ee7\u7eed"),
    *("\u7ee7\u7eed\u8bf4", "\u53ef\u4ee5", "\u662f\u7684"),
}
_SOUNDS = {"uh", "huh", "mm", "mhm", "hmm", "hm", "mmm", "um", "ah", "oh", "i see", "sure", "aha", "uh huh", "mm hmm"}
ACKNOWLEDGEMENTS = frozenset(_SHORT | _SOUNDS)
"""The published list, and the sounds people make while they listen."""


def is_acknowledgement(transcript: str) -> bool:
    """True when nothing but acknowledgements was said ("Yeah, okay."); an empty transcript is none."""
    words = re.sub(r"[^\w\s]", " ", transcript.lower()).split()
    at = 0
    while at < len(words):
        length = next((n for n in (3, 2, 1) if " ".join(words[at : at + n]) in ACKNOWLEDGEMENTS), 0)
        if not length:
            return False
        at += length
    return bool(words)
