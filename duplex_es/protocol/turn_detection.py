"""The rules of ``turn_detection``: what may be said, and what it means with the overlap policy.

Here alone is decided which kinds of detection exist: ``server_vad``, ``null``, and ``semantic_vad``, which is taken as
a ``server_vad`` that waits the longer for a silence the less eager it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from .errors import ProtocolError
from .loose_fields import at_path, is_number
from .objects import Plain

SERVER_VAD = "server_vad"
SEMANTIC_VAD = "semantic_vad"
EAGERNESS_SILENCE_MS = {"low": 800, "medium": 500, "auto": 500, "high": 300}
"""How eager a semantic detector is → how long a silence ends the turn."""
SPELLINGS = ("turn_detection", "audio.input.turn_detection")
NATIVE_MIN_THRESHOLD = 0.15
"""A model-native detector needs a threshold above this."""


class TurnDetection(msgspec.Struct, frozen=True, kw_only=True):
    """A ``server_vad`` as configured. ``UNSET`` is left to the kind of model: see ``for_lane``.

    ``threshold`` is a probability; ``prefix_padding_ms`` of sound before the onset belong to the utterance, which
    ends after ``silence_duration_ms`` of silence. ``idle_timeout_ms`` after an answer the model is prompted to go on if
    the caller has said nothing.
    """

    type: str = SERVER_VAD
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool | UnsetType = UNSET
    min_speech_duration_ms: float | UnsetType = UNSET
    idle_timeout_ms: int | UnsetType = UNSET

    def for_lane(self, *, native: bool) -> TurnDetection:
        """The same with every default filled in: a native model interrupts and waits for 96 ms of speech.

        Raises: ProtocolError for what this kind of model cannot do.
        """
        interrupts = native if self.interrupt_response is UNSET else self.interrupt_response
        if native:
            if not interrupts or not self.create_response:
                field = "create_response" if interrupts else "interrupt_response"
                raise refused(f".{field}=false is unsupported; use turn_detection=null for model-owned listen/speak")
            if self.threshold <= NATIVE_MIN_THRESHOLD:
                raise refused(f".threshold must be above {NATIVE_MIN_THRESHOLD} for this model")
        elif interrupts:
            message = "turn_detection.interrupt_response=true needs a model that listens while it speaks; send false."
            raise ProtocolError("server_vad_requires_native_duplex", message, "turn_detection")
        elif self.min_speech_duration_ms is not UNSET:
            raise refused(".min_speech_duration_ms is unsupported for this model; leave it out")
        minimum = 96.0 if native else 0.0
        return msgspec.structs.replace(
            self,
            interrupt_response=interrupts,
            min_speech_duration_ms=minimum if self.min_speech_duration_ms is UNSET else self.min_speech_duration_ms,
        )

    def to_wire(self) -> Plain:
        """The object the session's echo carries."""
        plain: Plain = msgspec.to_builtins(self)
        return plain


def refused(rule: str) -> ProtocolError:
    """The error for a turn detection that cannot be; ``rule`` goes on after the field's name."""
    return ProtocolError("unsupported_turn_detection", f"turn_detection{rule}", "turn_detection")


def read_turn_detection(raw: Plain) -> TurnDetection | UnsetType | None:
    """What a settings object says, ``None`` for ``null``, ``UNSET`` for nothing.

    Two spellings may both be given and must then mean the same. Raises: ProtocolError ``unsupported_turn_detection``
    for any other kind, an unknown key, or a value out of its range.
    """
    said = [_read(value) for value in (at_path(raw, spelling) for spelling in SPELLINGS) if value is not UNSET]
    if not said:
        return UNSET
    if len(said) == 2 and not _agree(said[0], said[1]):
        raise refused(": the two spellings disagree; send turn_detection or audio.input.turn_detection, not both")
    if len(said) == 2 and said[0] and said[0].interrupt_response is UNSET:
        return said[1]
    return said[0]


def settle_overlap_policy(
    turn_detection: TurnDetection | UnsetType | None,
    overlap_policy: str | UnsetType,
    *,
    current: TurnDetection | None,
    native: bool,
) -> str | UnsetType:
    """The overlap policy an update leads to; ``UNSET`` when it changes none.

    Configuring ``server_vad`` sets it (``barge_in_on_speech`` if it interrupts, else ``listen_only``), ``null`` sets
    ``listen_only``. Raises: ProtocolError when the policy the client names contradicts the turn detection that will
    be in force.
    """
    effective = current if turn_detection is UNSET else turn_detection
    implied = "listen_only"
    if effective is not None and effective.for_lane(native=native).interrupt_response:
        implied = "barge_in_on_speech"
    if overlap_policy is UNSET:
        return UNSET if turn_detection is UNSET else implied
    if overlap_policy != implied:
        if effective is None:
            rule = "overlap_policy=barge_in_on_speech needs turn_detection of type server_vad"
        else:
            rule = f"overlap_policy={overlap_policy} contradicts turn_detection, which implies {implied}"
        raise ProtocolError("unsupported_turn_detection", rule, "turn_detection")
    return overlap_policy


def _read(value: object) -> TurnDetection | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise refused(": expected null or an object of type server_vad")
    kind = value.get("type")
    if kind not in (SERVER_VAD, SEMANTIC_VAD):
        raise refused(f".type={kind!r:.60} is unsupported; use server_vad, semantic_vad or null")
    value = {key: held for key, held in value.items() if (key, held) != ("idle_timeout_ms", None)}
    fields = _SEMANTIC_FIELDS if kind == SEMANTIC_VAD else TurnDetection.__struct_fields__
    unknown = sorted(str(key) for key in value if key not in fields)
    if unknown:
        raise refused(f".{unknown[0]:.60} is not a field of {kind}; leave it out")
    if kind == SEMANTIC_VAD:
        value = _semantic(value)
    for field, (fits, rule) in _RULES.items():
        if field in value and not fits(value[field]):
            raise refused(f".{field} must be {rule}")
    return msgspec.convert(value, TurnDetection)


def _semantic(value: dict[str, object]) -> dict[str, object]:
    """The ``server_vad`` that a ``semantic_vad`` is taken for."""
    eagerness = value.get("eagerness", "auto")
    if not isinstance(eagerness, str) or eagerness not in EAGERNESS_SILENCE_MS:
        raise refused(f".eagerness must be one of {', '.join(EAGERNESS_SILENCE_MS)}")
    kept = {key: held for key, held in value.items() if key != "eagerness"}
    return {**kept, "type": SERVER_VAD, "silence_duration_ms": EAGERNESS_SILENCE_MS[eagerness]}


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _in_range(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and is_number(value) and least <= value <= most


_SEMANTIC_FIELDS = ("type", "eagerness", "create_response", "interrupt_response")
_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "threshold": (lambda value: _in_range(value, 0, 1), "a number from 0 to 1"),
    "prefix_padding_ms": (lambda value: _is_int(value, 0), "an integer from 0"),
    "silence_duration_ms": (lambda value: _is_int(value, 1), "an integer from 1"),
    "create_response": (lambda value: isinstance(value, bool), "true or false"),
    "interrupt_response": (lambda value: isinstance(value, bool), "true or false"),
    "min_speech_duration_ms": (lambda value: _in_range(value, 0, float("inf")), "a number from 0"),
    "idle_timeout_ms": (lambda value: _is_int(value, 1), "an integer from 1"),
}


def _agree(one: TurnDetection | None, other: TurnDetection | None) -> bool:
    if one is None or other is None:
        return one is other
    if UNSET in (one.interrupt_response, other.interrupt_response):
        one = msgspec.structs.replace(one, interrupt_response=UNSET)
        other = msgspec.structs.replace(other, interrupt_response=UNSET)
    return one == other
