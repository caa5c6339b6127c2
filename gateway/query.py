"""What the query string of a socket asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one socket; empty strings and unreadable switches count as not given.

    ``resume_only``: no session starts by itself; ``resume``: because one is to be resumed. ``model`` and
    ``session_id`` are what a session that starts by itself would get; ``model`` also serves an opening that names none.
    ``durable``: the client wants to be told up to which frame its session would survive the loss of a node.
    """

    model: str = ""
    session_id: str = ""
    native_duplex: bool = False
    resume: bool = False
    resume_only: bool = False
    durable: bool = False

    @property
    def autostarts(self) -> bool:
        """Whether a session begins before the client said anything."""
        return bool(self.model) and not self.resume_only


def read_query(parameters: Mapping[str, str]) -> Query:
    """Read ``parameters``; nothing in them is an error."""
    native = parameters.get("native_duplex", parameters.get("minicpmo45_native_duplex"))
    resume = _switch(parameters.get("resume")) is True
    return Query(
        model=parameters.get("model", ""),
        session_id=parameters.get("session_id", ""),
        native_duplex=_switch(native) is True,
        resume=resume,
        resume_only=resume or _switch(parameters.get("autostart")) is False,
        durable=_switch(parameters.get("durable")) is True,
    )


def _switch(text: str | None) -> bool | None:
    word = (text or "").strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None
