"""What each recording of the corpus means, in short: a change of it is a change of what old logs say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from duplex_es.reading.calls import read_call
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.log.checks import check_session
from duplex_es.tools.replay.recording import decisions_in
from duplex_es.tools.replay.reexecution import check

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
RECORDINGS = tuple(sorted(HERE.glob("*.dxlog")))


async def meaning_of(path: Path) -> dict[str, Any]:
    """What a recording says: its facts by kind, its answers, what the caller said, how it ended, and both checks."""
    with FileSource(path) as source:
        head = source.head
        findings = await check_session(source, head)
        checked = await check(source, head)
        facts: Counter[str] = Counter()
        async for decision in decisions_in(source, head):
            facts.update(type(fact).__name__ for fact in decision.facts)
        call = await read_call(source, head)
    answers = [
        {
            "asked": answer.asked_text,
            "text": answer.text,
            "status": answer.status,
            "reason": answer.reason,
            "generated_ms": answer.generated_ms,
        }
        for answer in call.answers
    ]
    return {
        "model": head.model,
        "state": head.state,
        "records": [findings.input_records, findings.output_records],
        "facts": dict(sorted(facts.items())),
        "answers": answers,
        "closed": call.closed,
        "decisions": checked.decisions,
        "diverges": str(checked.divergence) if checked.divergence else None,
    }


def write_golden() -> None:
    """Write ``golden.json`` anew from the recordings that are there."""
    found = {path.stem: asyncio.run(meaning_of(path)) for path in sorted(HERE.glob("*.dxlog"))}
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_golden()
