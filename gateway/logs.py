"""How log lines look: one readable line, or one JSON object, per event. To standard error."""

from __future__ import annotations

import json
import logging
import sys
import time


class JsonLines(logging.Formatter):
    """One object per line: ``time`` (UTC), ``level``, ``logger``, ``message``, and ``error`` after one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of ``record``, without its end."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(log_format: str, level: str) -> None:
    """Send this program's log lines, and uvicorn's warnings, to standard error."""
    sink = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        sink.setFormatter(JsonLines())
    else:
        sink.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[sink], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
