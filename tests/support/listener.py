"""A client process that may be killed at any moment: it keeps the answer in a file, and where it stands in a ticket.

``listener.py ask URL FOLDER SESSION`` opens a session as the JSON file SESSION says and asks for an answer;
``listener.py resume URL FOLDER`` goes on where the ticket in FOLDER stands. Both write the answer's sound to
``answer.pcm`` and end after its ``response.done``. The ticket says how much of the file is accounted for; what a killed
process wrote beyond that comes again, so it is cut off first.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from duplex_es.client import AudioDelta, DuplexClient, DuplexEvent, ResponseDone, SessionConfig


class Kept:
    """The answer so far, and the ticket that fits it, written in one step."""

    def __init__(self, folder: Path) -> None:
        self.sound = folder / "answer.pcm"
        self.standing = folder / "standing.json"

    def load(self) -> str:
        """The ticket; the sound file is as long as it says."""
        standing = json.loads(self.standing.read_text())
        os.truncate(self.sound, standing["bytes"])
        return str(standing["ticket"])

    def save(self, event: DuplexEvent, client: DuplexClient) -> None:
        """Account for ``event``, then let the server forget it."""
        seq = event.server_event_seq
        if seq is None:
            return
        with self.sound.open("ab") as file:
            if isinstance(event, AudioDelta):
                file.write(event.audio)
        standing = {"ticket": client.export_resume_ticket(after_seq=seq), "bytes": self.sound.stat().st_size}
        draft = self.standing.with_suffix(".new")
        draft.write_text(json.dumps(standing))
        draft.replace(self.standing)
        client.acknowledge(seq)


async def listen(client: DuplexClient, kept: Kept) -> None:
    """Keep all that comes until the answer is over. Each line on stdout is one piece of it."""
    async for event in client.events():
        kept.save(event, client)
        if isinstance(event, AudioDelta):
            print(len(event.audio), flush=True)
        if isinstance(event, ResponseDone):
            return


async def run(what: str, url: str, folder: Path, session: str = "") -> None:
    kept = Kept(folder)
    if what == "resume":
        async with DuplexClient.resume(url, kept.load(), auto_acknowledge=False) as client:
            await listen(client, kept)
        return
    wanted = json.loads(Path(session).read_text())
    config = SessionConfig(**wanted["config"])
    async with DuplexClient(url, model=wanted["model"], config=config, auto_acknowledge=False) as client:
        events = asyncio.create_task(listen(client, kept))
        await asyncio.sleep(0)
        await client.send({"type": "response.create"})
        await events


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:]))
