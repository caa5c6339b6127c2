"""Turn detection between stock clients and the session: what they may ask for, and what it becomes.

Stock clients know ``server_vad``, ``semantic_vad`` and ``null``; the session knows ``server_vad`` and ``null``, and
beside it whether turns are answered (``auto_response``) and whether speech interrupts (``overlap_policy``). What the
client wrote travels along under ``KEPT_AS``, so that it is shown what it asked for.
Source: docs/reference/dialects.md, "Turn detection".
"""

from __future__ import annotations

from ..loose_fields import is_number
from ..objects import Plain
from ..turn_detection import EAGERNESS_SILENCE_MS, NATIVE_MIN_THRESHOLD, SEMANTIC_VAD, SERVER_VAD

KEPT_AS = "stock_turn_detection"
"""The key among the session's settings that holds what the client wrote."""

DEFAULT: Plain = {"type": SERVER_VAD, "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
"""What a stock client has that says nothing about turn detection."""

_DETECTOR_FIELDS = (
    "threshold",
    "prefix_padding_ms",
    "silence_duration_ms",
    "min_speech_duration_ms",
    "idle_timeout_ms",
)
_BOTH_KNOW = ("create_response", "interrupt_response")
_LOWEST_THRESHOLD = NATIVE_MIN_THRESHOLD + 0.01
_MANUAL: Plain = {"turn_detection": None, "overlap_policy": "listen_only", KEPT_AS: None}


def asked_turn_taking(wanted: object) -> tuple[Plain, bool | None]:
    """The settings that ``wanted`` means, and whether turns are answered by themselves (``None``: not decided here).

    ``null`` (and ``false``, which one client sends for it) is manual: nothing is answered unasked. A kind of detection
    nobody knows is passed on as it is, to be refused with its name.
    """
    if wanted is None or wanted is False:
        return dict(_MANUAL), False
    if not isinstance(wanted, dict) or wanted.get("type", SERVER_VAD) not in (SERVER_VAD, SEMANTIC_VAD):
        return {"turn_detection": wanted}, None
    answers = wanted.get("create_response") is not False
    if wanted.get("interrupt_response") is False:
        # A model that hears while it speaks endpoints by itself; what it must not do is to fall silent.
        return {"turn_detection": None, "overlap_policy": "listen_only", KEPT_AS: wanted}, answers
    return {"turn_detection": _detector(wanted), KEPT_AS: wanted}, answers


def continued_turn_taking(update: Plain, kept: object) -> Plain:
    """The settings of a later ``update``: what it does not name of a stock client's turn detection is as it was.

    ``kept`` are the words now in force under ``KEPT_AS``. A field that is ``null`` is named. Another kind of detection
    goes on only with what both kinds know. Settings without such words, or with ``null`` for them, stay as they are.
    """
    wanted = update.get(KEPT_AS)
    if not isinstance(wanted, dict) or not isinstance(kept, dict):
        return update
    kind = kept.get("type", SERVER_VAD)
    is_same = wanted.get("type", kind) == kind
    merged = {**{key: kept[key] for key in kept if is_same or key in _BOTH_KNOW}, **wanted}
    changes, answers = asked_turn_taking(merged)
    body = update.get("extra_body")
    if answers is False and "create_response" not in wanted:
        changes["extra_body"] = {**(body if isinstance(body, dict) else {}), "auto_response": False}
    return {**update, **changes}


def turn_based_detection(kept: object) -> Plain | None:
    """What a turn-based model's detector is to be, read from the words under ``KEPT_AS``; ``None`` without any.

    Such a model answers only when the detector asks for it and is never interrupted, so of the two wishes ``false`` is
    the detector's own business and ``interrupt_response`` says nothing.
    """
    if not isinstance(kept, dict):
        return None
    detector = _detector(kept)
    detector.pop("min_speech_duration_ms", None)
    return detector | ({"create_response": False} if kept.get("create_response") is False else {})


def shown_turn_taking(session: Plain) -> Plain | None:
    """The turn detection of a public session object, in the words of stock clients; ``None`` for manual turns.

    ``create_response`` and ``interrupt_response`` are what holds, whatever was asked for: a client that believes the
    server interrupts does not cancel by itself.
    """
    answers = auto_response_of(session)
    detector, kept = session.get("turn_detection"), session.get(KEPT_AS)
    if isinstance(kept, dict):
        wrote = {key: value for key, value in kept.items() if value is not None}
        shown = {**({} if kept.get("type") == SEMANTIC_VAD else DEFAULT), **wrote}
    elif isinstance(detector, dict):
        shown = {**DEFAULT, **{key: detector[key] for key in _DETECTOR_FIELDS if key in detector}}
        shown.pop("min_speech_duration_ms", None)
    elif answers:
        # The model itself decides when a turn is over.
        shown = {"type": SEMANTIC_VAD, "eagerness": "auto"}
    else:
        return None
    policy = session.get("overlap_policy")
    return {**shown, "create_response": answers, "interrupt_response": policy == "barge_in_on_speech"}


def auto_response_of(session: Plain) -> bool:
    """Whether the session of this public object answers turns by itself; with a detector it does unless told not to."""
    extra_body = session.get("extra_body")
    said = extra_body.get("auto_response") if isinstance(extra_body, dict) else None
    return said if isinstance(said, bool) else isinstance(session.get("turn_detection"), dict)


def _detector(wanted: Plain) -> Plain:
    if wanted.get("type") == SEMANTIC_VAD:
        eagerness = wanted.get("eagerness")
        silence_ms = EAGERNESS_SILENCE_MS.get(eagerness if isinstance(eagerness, str) else "auto", 500)
        return {**DEFAULT, "silence_duration_ms": silence_ms}
    detector: Plain = {"type": SERVER_VAD}
    for field in _DETECTOR_FIELDS:
        if wanted.get(field) is not None:
            detector[field] = wanted[field]
    threshold = detector.get("threshold")
    if isinstance(threshold, int | float) and is_number(threshold) and 0 <= threshold < _LOWEST_THRESHOLD:
        detector["threshold"] = _LOWEST_THRESHOLD
    return detector
