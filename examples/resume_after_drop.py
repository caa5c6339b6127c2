"""An answer that survives its gateway: kill one while it speaks, and hear the answer to its end through the other.

duplex-es up --model scripted --gateways 2
python examples/resume_after_drop.py
pkill -9 -f 'duplex-es-gateway.*8099'             # in another terminal, while the answer sounds
"""

from __future__ import annotations

import argparse
import asyncio

from duplex_es.client import AudioDelta, ConnectionResumed, DuplexClient, ReconnectPolicy, ResponseDone, SessionConfig

WORDS = "This answer is long enough for you to kill the gateway that carries it."
ANSWER = [{"audio_ms": 8_000, "text": WORDS, "pace": "real"}, {"finish": True}]
CONFIG = SessionConfig(auto_response=False, extra_body={"script": [{"on": "generate", "do": ANSWER}]})


async def main(args: argparse.Namespace) -> None:
    """Ask, listen, and count."""
    heard_bytes, seqs, resumes = 0, [], 0
    policy = ReconnectPolicy(max_attempts=20)
    async with DuplexClient(args.url, model="scripted", config=CONFIG, reconnect=policy) as client:
        events = client.events()
        await client.send({"type": "response.create"})
        print(f"listening through {client.url.split('?')[0]}: kill that gateway now", flush=True)
        async for event in events:
            if event.server_event_seq is not None:
                seqs.append(event.server_event_seq)
            match event:
                case AudioDelta():
                    heard_bytes += len(event.audio)
                case ConnectionResumed():
                    resumes += 1
                    print(f"it is gone; going on through {client.url.split('?')[0]}", flush=True)
                case ResponseDone():
                    break
    missing = seqs[-1] - seqs[0] + 1 - len(set(seqs))
    print(
        f"{heard_bytes / 48_000:.1f} of 8.0 s heard, {resumes} resume(s), "
        f"{missing} event(s) missing, {len(seqs) - len(set(seqs))} twice"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", nargs="+", default=["ws://127.0.0.1:8099", "ws://127.0.0.1:8100"])
    asyncio.run(main(parser.parse_args()))
