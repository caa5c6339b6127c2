"""The four dialects a socket can speak."""

from __future__ import annotations

DUPLEX = "duplex"
"""The published contract, every field of it; what stands in the log."""
GA = "ga"
"""Strict OpenAI Realtime as its current clients validate it."""
BETA = "beta"
"""OpenAI Realtime under the event names of its beta."""
NATIVE = "native"
"""The raw event names of the runtime, for the route ``/v1/duplex``."""

DIALECTS = (DUPLEX, GA, BETA, NATIVE)
STOCK = frozenset({GA, BETA})
"""Dialects of clients that know nothing of this service: what they say is rewritten, what they hear is restricted."""
