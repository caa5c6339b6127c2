"""Ask a question, interrupt the answer, keep both answers: one WAV per response, a summary and every event.

    python examples/barge_in_client.py --ref-audio voice.wav --question-wav question.wav --interrupt-wav follow_up.wav

    duplex-es up                                      # or against the cascade, which needs no reference voice
    python examples/barge_in_client.py --preset cascade --model cascade \\
        --question-wav examples/audio/question.wav --interrupt-wav examples/audio/interrupt.wav

What happens when, step by step: barge_in_client_flow.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import wave
from array import array
from pathlib import Path
from typing import Any

from duplex_es.client import (
    AudioFormat,
    DuplexClient,
    EventCollector,
    SessionConfig,
    acknowledge_collected_playback,
    audio_data_url,
    wait_for_condition,
    write_pcm16_wav,
)
from duplex_es.client.presets import cascade, minicpmo_4_5, personaplex

PRESETS = ("minicpmo_4_5", "personaplex", "cascade", "none")
CHUNK_MS = {"minicpmo_4_5": 100, "personaplex": 80, "cascade": 100, "none": 100}


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Ask, interrupt, and keep what was answered.")
    parser.add_argument("--url", default="ws://127.0.0.1:8099/v1/realtime", help="the service (%(default)s)")
    parser.add_argument("--model", default="openbmb/MiniCPM-o-4_5", help="the model to ask for (%(default)s)")
    parser.add_argument("--preset", choices=PRESETS, default=PRESETS[0], help="the shape of the session (%(default)s)")
    parser.add_argument("--ref-audio", type=Path, help="the assistant's voice, a WAV; minicpmo_4_5 needs one")
    parser.add_argument("--question-wav", type=Path, required=True, help="16-bit PCM")
    parser.add_argument("--interrupt-wav", type=Path, required=True, help="16-bit PCM, said over the answer")
    parser.add_argument("--output-dir", type=Path, default=Path("duplex_out"), help="where to write (%(default)s)")
    parser.add_argument("--chunk-ms", type=int, help="length of an append (by the preset: 100, 80, 100)")
    parser.add_argument("--listen-s", type=float, default=2.0, help="how long to listen before interrupting")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="how long to wait for each answer")
    return parser


def session(args: argparse.Namespace) -> SessionConfig:
    """The session of the preset."""
    match args.preset:
        case "minicpmo_4_5":
            voice = audio_data_url(args.ref_audio) if args.ref_audio else None
            return minicpmo_4_5.create_duplex_session_config(ref_audio=voice)
        case "personaplex":
            return personaplex.create_duplex_session_config()
        case "cascade":
            return cascade.create_duplex_session_config()
    return SessionConfig()


def read_speech(path: Path, audio: AudioFormat) -> bytes:
    """The samples of a WAV in the session's input format: one channel, resampled along straight lines."""
    with wave.open(str(path), "rb") as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path}: 16-bit PCM is needed")
        rate_hz, channels = file.getframerate(), file.getnchannels()
        samples = array("h", file.readframes(file.getnframes()))[::channels]
    if sys.byteorder == "big":
        samples.byteswap()
    last = len(samples) - 1
    values = []
    for number in range(len(samples) * audio.sample_rate_hz // rate_hz):
        at = number * rate_hz / audio.sample_rate_hz
        left = min(int(at), last)
        values.append(samples[left] + (samples[min(left + 1, last)] - samples[left]) * (at - left))
    is_float = audio.encoding == "pcm_f32le"
    out = array("f", (value / 32768 for value in values)) if is_float else array("h", map(round, values))
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def note(text: str) -> None:
    """Progress, for a person."""
    print(text, file=sys.stderr, flush=True)


async def converse(client: DuplexClient, collector: EventCollector, args: argparse.Namespace) -> None:
    """Question, interruption, and the wait for the answer to the second."""
    chunk_ms = args.chunk_ms or CHUNK_MS[args.preset]
    # A model in its own lane decides by itself whether to answer; the cascade answers turns.
    creates = None if args.preset in ("cascade", "none") else False
    commits = client.session_info.get("capabilities", {}).get("supports_client_commit") is not False

    async def say(path: Path) -> None:
        await client.stream_pcm(read_speech(path, client.config.input_audio), chunk_ms=chunk_ms)
        if commits:
            await client.commit(create_response=creates)

    note(f"session {client.session_id}: asking {args.question_wav}")
    await say(args.question_wav)
    await wait_for_condition(lambda: bool(collector.response_ids), timeout_s=args.timeout_s, label="answer")
    note(f"{collector.response_ids[0]} has begun; listening for {args.listen_s:g} s")
    await asyncio.sleep(args.listen_s)

    before = len(collector.response_ids)
    note(f"interrupting with {args.interrupt_wav}")
    await say(args.interrupt_wav)

    def is_answered() -> bool:
        return any(collector.response_is_done(each) for each in collector.response_ids[before:])

    await wait_for_condition(is_answered, timeout_s=args.timeout_s, label="answer to the interruption")
    await acknowledge_collected_playback(client, collector)


def status_of(collector: EventCollector, response_id: str) -> str:
    """How a response ended; ``in_progress`` when it did not."""
    for event in collector.events:
        if event["type"] == "response.done" and collector.response_id(event) == response_id:
            return str(event["response"].get("status", "completed"))
    return "in_progress"


def save(collector: EventCollector, folder: Path) -> list[dict[str, Any]]:
    """Write WAVs, ``summary.json`` and ``events.jsonl``; returns the summary."""
    folder.mkdir(parents=True, exist_ok=True)
    audio = AudioFormat("pcm16", collector.output_sample_rate_hz)
    summary = []
    for number, response_id in enumerate(collector.response_ids, 1):
        pcm, status = collector.audio_bytes(response_id), status_of(collector, response_id)
        file = folder / f"response_{number}_{status}.wav"
        if pcm:
            write_pcm16_wav(file, pcm, sample_rate_hz=audio.sample_rate_hz)
        summary.append(
            {
                "response_id": response_id,
                "status": status,
                "audio_s": round(audio.duration_ms(len(pcm)) / 1000, 3),
                "text": collector.response_text(response_id),
                "wav": str(file) if pcm else None,
            }
        )
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    with (folder / "events.jsonl").open("w") as lines:
        lines.writelines(json.dumps(event) + "\n" for event in collector.events)
    return summary


async def main(args: argparse.Namespace) -> None:
    """Converse, then write down what came."""
    collector = EventCollector()
    async with DuplexClient(
        args.url, model=args.model, config=session(args), reconnect=None, heartbeat_interval_s=None
    ) as client:
        consuming = asyncio.create_task(collector.consume(client))
        await asyncio.sleep(0)
        await converse(client, collector, args)
    await consuming
    print(json.dumps(save(collector, args.output_dir), indent=2))


if __name__ == "__main__":
    asyncio.run(main(options().parse_args()))
