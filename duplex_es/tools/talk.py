"""``duplex-es talk``: ask a running service a recorded question, and keep what it answered."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from ..client import DuplexClientError, write_pcm16_wav
from .console import Console
from .conversation import Conversation, Heard, ask
from .errors import ToolError
from .latency import measure
from .waves import read_wave


def save(conversation: Conversation, directory: Path) -> list[Path]:
    """Write the answer's sound, both sides' words and all events into ``directory``; returns what was written."""
    directory.mkdir(parents=True, exist_ok=True)
    written = [directory / "transcript.txt", directory / "events.jsonl"]
    answer = conversation.answer
    said = answer.text.strip() if answer else ""
    written[0].write_text(f"caller: {conversation.question}\nassistant: {said}\n")
    with written[1].open("wb") as file:
        for heard in conversation.heard:
            file.write(msgspec.json.encode(_plain(heard)) + b"\n")
    if answer and answer.pcm:
        written.insert(0, directory / "answer.wav")
        write_pcm16_wav(written[0], bytes(answer.pcm), sample_rate_hz=answer.sample_rate_hz)
    return written


def _plain(heard: Heard) -> dict[str, Any]:
    """The event with its arrival time; sound is in the WAV, so only its size stays here."""
    event = dict(heard.event.raw)
    if event["type"] == "response.output_audio.delta":
        event["delta"] = f"({len(heard.event.audio)} bytes)"
    return {"received_at_s": round(heard.at_s, 4), **event}


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es talk``."""
    console = Console()
    wave = read_wave(args.wav)
    console.line(f"asking {args.model} at {args.url[0]}: {args.wav} ({wave.duration_ms / 1000:.1f} s)")
    try:
        conversation = await ask(
            args.url,
            wave,
            model=args.model,
            timeout_s=args.timeout_s,
            instructions=args.instructions,
            commits=args.commit,
        )
    except DuplexClientError as error:
        raise ToolError(str(error)) from error
    answer = conversation.answer
    console.heading("In words")
    console.table([("caller", conversation.question), ("assistant", answer.text.strip() if answer else "")])
    console.heading("Latency")
    console.table(measure(conversation).rows())
    console.heading("Kept")
    for path in save(conversation, args.out):
        console.line(f"  {path}")
    return 0
