"""`helm test`: a session opened at one gateway, dropped there and taken up at another, with nothing lost on the way.

The environment says where: EACH is a host name with the address of every ready gateway, PORT theirs; MODEL names the
session's model, and nothing leaves it to the gateways. Exits with 1 and one line that says what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from urllib.parse import urlsplit

from duplex_es.client import DuplexClient, DuplexClientError, SessionConfig

TEXT = {
    "type": "conversation.item.create",
    "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Are you there?"}]},
}


def gateways() -> list[str]:
    """The URL of every ready gateway, each once."""
    if given := os.environ.get("URLS"):
        return given.split(",")
    port = os.environ["PORT"]
    found = {str(entry[4][0]) for entry in socket.getaddrinfo(os.environ["EACH"], int(port), type=socket.SOCK_STREAM)}
    return [f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}" for host in sorted(found)]


async def hold(first: str, second: str, model: str) -> str:
    """Open at ``first``, say something, leave before hearing the answer; hear it at ``second``. Returns a sentence."""
    config = SessionConfig(auto_response=False)
    client = DuplexClient([first], model=model, config=config, auto_acknowledge=False)
    async with client:
        added = asyncio.create_task(client.wait_for("conversation.item.added", timeout_s=20))
        await asyncio.sleep(0)
        await client.send(TEXT)
        seq = (await added).server_event_seq
        if seq is None:
            raise AssertionError("an event of the log came without its server_event_seq")
        ticket = client.export_resume_ticket(after_seq=seq - 1)
        await client.leave()
    async with DuplexClient.resume([second], ticket) as again:
        missed = await again.wait_for("conversation.item.added", timeout_s=20)
        if missed.server_event_seq != seq:
            raise AssertionError(f"after the resume event {missed.server_event_seq} came instead of {seq}")
        if again.session_id != client.session_id:
            raise AssertionError(f"the session went on as {again.session_id}, not as {client.session_id}")
    return f"session {client.session_id}: opened at {urlsplit(first).netloc}, resumed at {urlsplit(second).netloc}"


async def main() -> int:
    """Run the test. Returns the exit status."""
    try:
        urls = gateways()
        async with asyncio.timeout(float(os.environ.get("TIMEOUT_S", "60"))):
            print(await hold(urls[0], urls[-1], os.environ.get("MODEL") or "cascade"))
    except (AssertionError, DuplexClientError, OSError, TimeoutError) as error:
        print(f"failed: {type(error).__name__}: {error}")
        return 1
    if len(urls) == 1:
        print("there is one gateway only: it was resumed where it had been opened")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
