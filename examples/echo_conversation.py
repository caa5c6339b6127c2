"""Talk to the model that says back what it hears, and keep what came back.

duplex-es up --model echo
python examples/echo_conversation.py examples/audio/question.wav --out back.wav
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from duplex_es.client import DuplexClient, read_pcm16_wav, write_pcm16_wav

RATE_HZ = 16_000
SILENCE = bytes(RATE_HZ * 2)  # a second


async def main(args: argparse.Namespace) -> None:
    """Say the WAV, go on with silence until the echo is over."""
    async with DuplexClient(args.url, model="echo") as client:
        answers = client.responses()

        async def speak() -> None:
            await client.stream_pcm(read_pcm16_wav(args.wav), chunk_ms=40)
            while True:
                await client.stream_pcm(SILENCE, chunk_ms=40)

        speaking = asyncio.create_task(speak())
        echo = await asyncio.wait_for(anext(answers), timeout=30)
        pcm = bytearray()
        async for chunk in echo.audio():
            pcm += chunk
            await client.ack_playback(echo.played_ms, response_id=echo.response_id)
        speaking.cancel()
    write_pcm16_wav(args.out, bytes(pcm), sample_rate_hz=24_000)
    print(f"{len(pcm) / 48_000:.1f} s came back: {args.out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wav", type=Path, help="mono, 16 bit, 16 kHz")
    parser.add_argument("--url", default="ws://127.0.0.1:8099")
    parser.add_argument("--out", type=Path, default=Path("echo.wav"))
    asyncio.run(main(parser.parse_args()))
