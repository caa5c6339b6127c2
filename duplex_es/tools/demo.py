"""``duplex-es demo``: the main job from end to end, on this machine, checked at every step.

A recorded question goes to one gateway, which is killed in the middle of the answer: the call goes on at the other.
The spoken answer is kept, played to that gateway and transcribed there, and the log of the conversation is printed.
Anything missing is an exit code of 1.
"""

from __future__ import annotations

import argparse
import re
import time
from difflib import SequenceMatcher
from pathlib import Path

from ..client import DuplexClientError
from .console import Console
from .conversation import Answer, Conversation, ask, transcribe
from .errors import ToolError
from .latency import measure
from .render import render
from .show import opened, read_session
from .stack import Stack, StackPlan, told_metrics
from .survival import Survival
from .talk import save
from .waves import Wave, read_wave

QUESTION = Path(__file__).resolve().parents[2] / "examples" / "audio" / "question.wav"
GATEWAYS = 2
# Words in common between what was said and what was heard back; below it the sound is not the words.
ALIKE = 0.6


def alike(said: str, heard: str) -> float:
    """How much two texts agree word for word, 0 to 1; case and punctuation do not count."""
    said_words, heard_words = (re.findall(r"[a-z0-9']+", text.lower()) for text in (said, heard))
    return SequenceMatcher(a=said_words, b=heard_words, autojunk=False).ratio()


def missing(conversation: Conversation, heard_back: str, survival: Survival | None) -> list[str]:
    """What a whole conversation has and this one lacks, in words; empty when nothing is."""
    answer = conversation.answer
    checks = {
        "the question was not understood": bool(conversation.question),
        "there is no answer in words": bool(answer and answer.text.strip()),
        "the answer has no sound": bool(answer and answer.pcm),
        "the answer could not be transcribed back": bool(heard_back),
        "the answer sounds unlike its words": not (answer and heard_back) or alike(answer.text, heard_back) >= ALIKE,
    }
    if survival is not None:
        checks |= {
            "no gateway was lost in the middle of the answer": bool(survival.lost),
            "the call did not go on at another gateway": survival.went_on,
            "frames were lost or repeated": survival.is_complete,
        }
    return [trouble for trouble, is_fine in checks.items() if not is_fine]


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es demo``."""
    console = Console()
    started_s = time.monotonic()
    wave = read_wave(args.wav)
    plan = StackPlan(gateways=GATEWAYS, workers=1, model=args.model, port=0, redis_url=args.redis_url)
    console.heading(f"Starting a store, {GATEWAYS} gateways and a worker with {args.model}")
    async with Stack(plan, console.named) as stack:
        console.named("demo", f"everything is ready after {time.monotonic() - started_s:.1f} s")
        console.named("demo", told_metrics(stack))
        try:
            conversation, heard_back, survival = await _converse(stack, wave, args, console)
        except DuplexClientError as error:
            raise ToolError(str(error)) from error
        async with opened(stack.redis_url) as log:
            _, lines = await read_session(log, conversation.session_id)
        console.heading("Stopping")
    console.heading(f"The log of session {conversation.session_id} (> said, < answered; seconds)")
    for text in render(lines):
        console.line(text)
    console.heading("Latency")
    console.table(measure(conversation, lines).rows())
    if survival is not None:
        console.heading("Survived")
        console.table(survival.rows())
    console.heading("Kept")
    for path in save(conversation, args.out):
        console.line(f"  {path}")
    answer = conversation.answer or Answer("")
    console.heading("In words")
    console.table(
        [
            ("question, as recorded", args.wav.name),
            ("question, as understood", conversation.question or "(nothing)"),
            ("answer, as spoken", answer.text.strip() or "(nothing)"),
            ("answer, as heard back", heard_back or "(nothing)"),
        ]
    )
    troubles = missing(conversation, heard_back, survival)
    console.line()
    for trouble in troubles:
        console.line(f"  FAILED: {trouble}")
    if not troubles:
        console.line(f"  done in {time.monotonic() - started_s:.1f} s; everything is stopped")
    return 1 if troubles else 0


async def _converse(
    stack: Stack, wave: Wave, args: argparse.Namespace, console: Console
) -> tuple[Conversation, str, Survival | None]:
    console.heading(f"Asking over {stack.urls[0]}: {args.wav.name}, {wave.duration_ms / 1000:.1f} s")
    first, *others = stack.urls
    lost: list[tuple[str, float]] = []

    async def lose() -> None:
        console.heading("Killing that gateway in the middle of the answer")
        lost.append((await stack.lose_gateway(first), time.time()))

    meanwhile = None if args.calm else lose
    conversation = await ask(stack.urls, wave, model=args.model, timeout_s=args.timeout_s, meanwhile=meanwhile)
    survival = None if args.calm else Survival.of(conversation, *(lost[0] if lost else ("", 0.0)))
    answer = conversation.answer
    if answer is None or not answer.pcm:
        return conversation, "", survival
    console.named("demo", f"answered with {answer.duration_ms / 1000:.1f} s of speech")
    console.heading(f"Playing the answer to {others[0]}, to hear what was said")
    spoken = Wave(bytes(answer.pcm), answer.sample_rate_hz)
    heard_back = await transcribe(others, spoken, model=args.model, timeout_s=args.timeout_s)
    return conversation, heard_back, survival
