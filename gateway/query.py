"""What the query string of a socket asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .dialects import DUPLEX

_DUPLEX_ON = frozenset({"1", "true", "on"})
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one socket; empty strings and unreadable switches count as not given.

    ``resume_only``: no session starts by itself. ``model`` and ``session_id`` are what one that does would get;
    ``model`` also serves an opening that names none.
    """

    duplex: bool = True
    model: str = ""
    session_id: str = ""
    native_duplex: bool = False
    resume_only: bool = False
    dialect: str = DUPLEX

    @property
    def autostarts(self) -> bool:
        """Whether a session begins before the client said anything."""
        return bool(self.model) and not self.resume_only


def read_query(parameters: Mapping[str, str]) -> Query:
    """Read ``parameters``; nothing in them is an error."""
    duplex = parameters.get("duplex")
    native = parameters.get("native_duplex", parameters.get("minicpmo45_native_duplex"))
    return Query(
        duplex=duplex is None or duplex.lower() in _DUPLEX_ON,
        model=parameters.get("model", ""),
        session_id=parameters.get("session_id", ""),
        native_duplex=_switch(native) is True,
        resume_only=_switch(parameters.get("resume")) is True or _switch(parameters.get("autostart")) is False,
    )


def _switch(text: str | None) -> bool | None:
    word = (text or "").strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None
