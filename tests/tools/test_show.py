"""A store opened for reading."""

from __future__ import annotations

import pytest

from duplex_es.tools import show
from duplex_es.tools.errors import ToolError

pytestmark = pytest.mark.unit


async def test_a_url_of_no_store_is_trouble_in_words() -> None:
    with pytest.raises(ToolError, match="ftp://x"):
        async with show.opened("ftp://x"):
            raise AssertionError("must not get here")
