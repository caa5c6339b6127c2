"""Dialects: one stream stands in the log, and every socket hears it in the words of its own client.

A dialect is a pure function of one frame: it may drop it, rename it or make several events of it, but it changes
nothing. So a session opened in one dialect can be resumed in another, and a replay is what was heard the first time.
A ``Listener`` adds the one thing stock clients need that no single frame tells: responses come one at a time. In the
other direction ``rewrite_command`` writes out what a stock client leaves unsaid.

A socket's life: ``choose_dialect`` on the upgrade; ``read_command`` on what comes in, ``dialect_of`` on the first of
it if need be, ``rewrite_command`` before it is recorded (``opening_settings`` when a session begins by itself);
a ``Listener`` for what goes out.
"""

from __future__ import annotations

from .choose import (
    SEED_FIELDS,
    SUBPROTOCOL,
    agreed_subprotocol,
    choose_dialect,
    dialect_of,
    key_of_subprotocols,
)
from .faults import CODES, stock_code
from .ga import MAX_DELTA_BYTES
from .items import MAX_ECHO_CHARS
from .listener import Listener
from .names import BETA, DIALECTS, DUPLEX, GA, NATIVE, STOCK
from .stock_commands import opening_settings, rewrite_command
from .turn_taking import KEPT_AS, continued_turn_taking, turn_based_detection
from .wire import project, read_command, render, render_handshake_error

__all__ = [
    "BETA",
    "CODES",
    "DIALECTS",
    "DUPLEX",
    "GA",
    "KEPT_AS",
    "MAX_DELTA_BYTES",
    "MAX_ECHO_CHARS",
    "NATIVE",
    "SEED_FIELDS",
    "STOCK",
    "SUBPROTOCOL",
    "Listener",
    "agreed_subprotocol",
    "choose_dialect",
    "continued_turn_taking",
    "dialect_of",
    "key_of_subprotocols",
    "opening_settings",
    "project",
    "read_command",
    "render",
    "render_handshake_error",
    "rewrite_command",
    "stock_code",
    "turn_based_detection",
]
