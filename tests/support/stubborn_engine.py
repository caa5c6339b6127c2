"""An engine that never finishes loading."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.support.toy_engine import ToyEngine


class Stubborn(ToyEngine):
    def load(self) -> None:
        time.sleep(3600)


def make(options: Mapping[str, str]) -> Stubborn:
    return Stubborn(options)
