"""The card of the model that steps the toy engine."""

from __future__ import annotations

from duplex_es.model import ModelInfo
from duplex_es.protocol.objects import Capabilities

TOY_INFO = ModelInfo(
    name="toy", capabilities=Capabilities(), input_rate_hz=16_000, output_rate_hz=16_000, memory_bytes=200
)
