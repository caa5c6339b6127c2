"""Frames to the text a socket of some dialect hears, and text to commands: the two doors of this package."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pybase64

from ..codec import decode_command, encode_frame
from ..commands import Command
from ..errors import ProtocolError
from ..frames import Error, FlatError, Frame
from ..objects import Plain
from . import beta, ga, native
from .names import BETA, DUPLEX, GA, NATIVE, STOCK

ROWS: Mapping[str, Mapping[type[Frame], ga.Row]] = {GA: ga.ROWS, BETA: beta.ROWS, NATIVE: native.ROWS}
"""Dialect → its rows. ``duplex`` has none: it is the stream itself."""

_JSON = msgspec.json.Encoder()
_READ = msgspec.json.Decoder()


def project(frame: Frame, dialect: str) -> list[Plain]:
    """The events a socket of ``dialect`` hears of ``frame``, in order and without ``event_id``; often none.

    Depends on that frame alone, so that a replay sounds like the first time. Sound is base64 text.
    Raises: KeyError for a dialect nobody speaks.
    """
    made = native.unchanged(frame) if dialect == DUPLEX else ROWS[dialect][type(frame)](frame)
    return [{key: _readable(value) for key, value in event.items()} for event in made]


def render(frame: Frame, dialect: str, *, event_id: str, seq: int | None = None) -> list[str]:
    """The texts a socket of ``dialect`` is sent for ``frame``: compact JSON, one event each.

    The first event carries ``event_id``, the n-th one ``<event_id>_<n>``: all are the same on every replay.
    ``server_event_seq`` is there only for clients that can name it, those of ``duplex`` and ``native``.
    Raises: KeyError for a dialect nobody speaks.
    """
    if dialect == DUPLEX:
        return [encode_frame(frame, event_id=event_id, seq=seq)]
    texts: list[str] = []
    for number, event in enumerate(ROWS[dialect][type(frame)](frame), 1):
        stamped = {**event, "event_id": event_id if number == 1 else f"{event_id}_{number}"}
        if seq is not None and dialect not in STOCK:
            stamped["server_event_seq"] = seq
        texts.append(_encoded(stamped))
    return texts


def render_handshake_error(error: ProtocolError, dialect: str, *, event_id: str) -> str:
    """The text for an error before any session is bound to the socket: flat for seed clients, nested for stock ones."""
    if dialect in STOCK:
        return render(Error.of(error), dialect, event_id=event_id)[0]
    return encode_frame(FlatError.of(error))


def read_command(text: str | bytes, dialect: str) -> Command:
    """The command in one text frame of a client that speaks ``dialect``; see ``decode_command`` for what it raises.

    Only ``native`` has names of its own. What a stock client leaves unsaid is put in by ``rewrite_command``.
    """
    return decode_command(_renamed(text) if dialect == NATIVE else text)


def _renamed(text: str | bytes) -> str | bytes:
    """The event under its canonical name; what is no such event, or none at all, is left for the codec to judge."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not any(name.encode() in data for name in native.COMMAND_NAMES):
        return text
    try:
        event = _READ.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return text
    name = event.get("type") if isinstance(event, dict) else None
    if not isinstance(name, str) or name not in native.COMMAND_NAMES:
        return text
    return _JSON.encode({**event, "type": native.COMMAND_NAMES[name]})


def _encoded(event: Plain) -> str:
    """As the encoder would, but sound is put into the text instead of through the encoder, which takes longer.

    The key occurs once before any free text can: quotes inside strings are escaped.
    """
    sound = event.get("delta")
    if not isinstance(sound, bytes):
        return _JSON.encode(event).decode()
    before, after = _JSON.encode({**event, "delta": ""}).decode().split('"delta":""', 1)
    return f'{before}"delta":"{pybase64.b64encode_as_string(sound)}"{after}'


def _readable(value: object) -> object:
    return pybase64.b64encode_as_string(value) if isinstance(value, bytes) else value
