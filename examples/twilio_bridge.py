"""Telephone calls: bridges Twilio Media Streams to a duplex session, mu-law all the way, interruptions included.

    duplex-es up
    python examples/twilio_bridge.py --port 5050

and in the TwiML of a number: <Connect><Stream url="wss://your.host/"/></Connect>

Sound goes to the caller as fast as the model makes it, with a mark behind each piece. Twilio sends a mark back when it
has played that far: that is what the session is told was heard. When the caller talks over the answer, what Twilio
still holds is cleared, and the answer in the conversation ends where the caller heard it end.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from duplex_es.client import AudioDelta, AudioFormat, DuplexClient, ResponseDone
from duplex_es.client.presets import cascade

PHONE = AudioFormat("g711_ulaw", 8_000)
CONFIG = cascade.create_duplex_session_config(
    input_audio=PHONE, output_audio=PHONE, instructions="You are on the telephone. Be brief."
)


class Call:
    """One caller. ``sent_ms`` and ``heard_ms`` are of each response: what went out, what Twilio has played."""

    def __init__(self, socket: ServerConnection, stream: str, client: DuplexClient) -> None:
        self.socket = socket
        self.stream = stream
        self.client = client
        self.sent_ms: dict[str, float] = {}
        self.heard_ms: dict[str, float] = {}
        self.cut: set[str] = set()

    async def tell(self, event: str, **fields: Any) -> None:
        """Say something to Twilio."""
        await self.socket.send(json.dumps({"event": event, "streamSid": self.stream, **fields}))

    async def listen(self, messages: AsyncIterator[dict[str, Any]]) -> None:
        """Caller to model, until the call ends."""
        async for message in messages:
            match message:
                case {"event": "media", "media": {"payload": payload}}:
                    await self.client.append_audio(base64.b64decode(payload))
                case {"event": "mark", "mark": {"name": name}}:
                    await self.heard(*name.rsplit(" ", 1))
                case {"event": "stop"}:
                    return

    async def speak(self) -> None:
        """Model to caller."""
        async for event in self.client:
            match event:
                case AudioDelta(response_id=str() as answer):
                    await self.tell("media", media={"payload": base64.b64encode(event.audio).decode()})
                    self.sent_ms[answer] = self.sent_ms.get(answer, 0.0) + PHONE.duration_ms(len(event.audio))
                    await self.tell("mark", mark={"name": f"{answer} {self.sent_ms[answer]:.0f}"})
                case ResponseDone(response_id=str() as answer, status="cancelled"):
                    await self.fall_silent(answer)

    async def heard(self, answer: str, until_ms: str) -> None:
        """Twilio played ``answer`` up to there. What a clear brings back was not played."""
        if answer not in self.cut:
            self.heard_ms[answer] = float(until_ms)
            await self.client.ack_playback(self.heard_ms[answer], response_id=answer)

    async def fall_silent(self, answer: str) -> None:
        """The caller talked over ``answer``: drop what is not played yet, and say how much was."""
        self.cut.add(answer)
        await self.tell("clear")
        played_ms = int(self.heard_ms.get(answer, 0.0))
        await self.client.send(
            {"type": "playback.ack", "response_id": answer, "played_ms": played_ms, "truncate": True}
        )


async def messages_of(socket: ServerConnection) -> AsyncIterator[dict[str, Any]]:
    """Twilio's messages."""
    async for text in socket:
        yield json.loads(text)


async def take_call(socket: ServerConnection, url: str, model: str) -> None:
    """One call from its beginning to its end."""
    messages = messages_of(socket)
    async for message in messages:
        if message["event"] == "start":
            break
    else:
        return
    stream = message["start"]["streamSid"]
    async with DuplexClient(url, model=model, config=CONFIG) as client:
        print(f"{stream}: {client.session_id}", flush=True)
        call = Call(socket, stream, client)
        speaking = asyncio.create_task(call.speak())
        await call.listen(messages)
        speaking.cancel()
    print(f"{stream}: over", flush=True)


async def main(args: argparse.Namespace) -> None:
    """Take calls until Ctrl-C."""
    async with serve(lambda socket: take_call(socket, args.url, args.model), args.host, args.port) as server:
        print(f"taking calls at ws://{args.host}:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5050)
    parser.add_argument("--url", default="ws://127.0.0.1:8099")
    parser.add_argument("--model", default="cascade")
    asyncio.run(main(parser.parse_args()))
