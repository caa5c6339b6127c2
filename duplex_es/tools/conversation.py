"""One caller on the line: says what a WAV file says, in real time, and takes down everything that comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ..client import (
    AudioDelta,
    AudioFormat,
    DuplexClient,
    DuplexEvent,
    ErrorEvent,
    ReconnectPolicy,
    ResponseCreated,
    ResponseDone,
    SessionConfig,
    SessionEnded,
    TextDelta,
    TranscriptDelta,
)
from .errors import ToolError
from .waves import Wave

CHUNK_MS = 40
MEANWHILE_MS = 1_200
Meanwhile = Callable[[], Awaitable[None]]
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
COMMITTED = "input_audio_buffer.committed"
SPEECH_STOPPED = "input_audio_buffer.speech_stopped"


@dataclass(frozen=True, slots=True)
class Heard:
    """One event and when it arrived: Unix seconds, the clock that the records of the log use."""

    at_s: float
    event: DuplexEvent


@dataclass(slots=True)
class Answer:
    """One response as it was heard."""

    response_id: str
    status: str = "in_progress"
    text: str = ""
    pcm: bytearray = field(default_factory=bytearray)
    sample_rate_hz: int = 24_000
    first_audio: Heard | None = None

    @property
    def duration_ms(self) -> float:
        """How long its audio sounds."""
        return len(self.pcm) * 1000 / (2 * self.sample_rate_hz)


@dataclass(slots=True)
class Conversation:
    """What was heard so far, in order. ``stream_start_s`` is when the caller's first sample was due,

    ``speech_end_s`` when the last one that is speech was, both in Unix seconds.
    """

    session_id: str = ""
    model: str = ""
    stream_start_s: float = 0.0
    speech_end_s: float = 0.0
    heard: list[Heard] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    transcripts: dict[str, str] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """What the service understood, its items joined."""
        return " ".join(text.strip() for text in self.transcripts.values() if text.strip())

    @property
    def answer(self) -> Answer | None:
        """The last response that was not cut off and said something."""
        whole = [each for each in self.answers.values() if each.status == "completed" and (each.pcm or each.text)]
        return whole[-1] if whole else None

    @property
    def is_amid_answer(self) -> bool:
        """Whether a fair part of an answer has been heard and more of it is to come."""
        return any(each.status == "in_progress" and each.duration_ms >= MEANWHILE_MS for each in self.answers.values())

    def first(self, type: str, *, after_s: float = 0.0) -> Heard | None:
        """The first event of ``type`` that arrived at or after ``after_s``."""
        return next((each for each in self.heard if each.event.type == type and each.at_s >= after_s), None)

    def take(self, heard: Heard) -> None:
        """Note one event."""
        self.heard.append(heard)
        event = heard.event
        if event.type == TRANSCRIBED and event.item_id:
            self.transcripts[event.item_id] = event.text
        if event.response_id is None:
            return
        if isinstance(event, ResponseCreated):
            self.answers[event.response_id] = Answer(event.response_id)
        answer = self.answers.get(event.response_id)
        match event:
            case _ if answer is None:
                return
            case AudioDelta():
                answer.first_audio = answer.first_audio or heard
                answer.pcm += event.audio
                answer.sample_rate_hz = event.sample_rate_hz or answer.sample_rate_hz
            case TranscriptDelta() | TextDelta():
                answer.text += event.text
            case ResponseDone():
                answer.status = event.status or "unknown"


@asynccontextmanager
async def call(
    urls: Sequence[str], model: str, wave: Wave, config: SessionConfig | None = None
) -> AsyncIterator[DuplexClient]:
    """An open session whose input format is that of ``wave``."""
    settings = config or SessionConfig(input_audio=AudioFormat("pcm16", wave.sample_rate_hz))
    async with DuplexClient(urls, model=model, config=settings, reconnect=ReconnectPolicy()) as client:
        yield client


async def ask(
    urls: Sequence[str],
    wave: Wave,
    *,
    model: str,
    timeout_s: float,
    instructions: str | None = None,
    commits: bool = False,
    meanwhile: Meanwhile | None = None,
) -> Conversation:
    """Say ``wave`` and hear the whole answer, as on the telephone: silence follows the question until it has come.

    ``commits`` ends the turn explicitly, for models that do not hear the end of a turn by themselves. ``meanwhile``
    is run once, in the middle of the answer: when ``MEANWHILE_MS`` of it have been heard.
    Raises: ToolError when no answer came in ``timeout_s`` after the question, or the service refused something.
    """
    config = SessionConfig(input_audio=AudioFormat("pcm16", wave.sample_rate_hz), instructions=instructions)
    conversation = Conversation(model=model)
    async with call(urls, model, wave, config) as client:
        conversation.session_id = client.session_id or ""
        events = client.events()
        speaking = asyncio.create_task(_speak(client, wave, conversation, commits=commits))
        try:
            async with asyncio.timeout(wave.duration_ms / 1000 + timeout_s):
                async for event in events:
                    conversation.take(Heard(time.time(), event))
                    _refuse_trouble(event)
                    if meanwhile is not None and conversation.is_amid_answer:
                        happens, meanwhile = meanwhile, None
                        await happens()
                    if _is_answered(conversation):
                        break
        except TimeoutError:
            heard = f"it understood {conversation.question!r}" if conversation.question else "it understood nothing"
            raise ToolError(f"no answer within {timeout_s:g} s after the question; {heard}") from None
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])
        if speaking.done() and not speaking.cancelled() and (failure := speaking.exception()):
            raise failure
        if answer := conversation.answer:
            await client.ack_playback(answer.duration_ms, response_id=answer.response_id)
    return conversation


async def transcribe(urls: Sequence[str], wave: Wave, *, model: str, timeout_s: float) -> str:
    """What the service understands of ``wave``: it is sent as fast as it goes, as one turn that wants no answer.

    Raises: ToolError when no transcript came in ``timeout_s``.
    """
    conversation = Conversation(model=model)
    committed: set[str] = set()
    config = SessionConfig(input_audio=AudioFormat("pcm16", wave.sample_rate_hz), auto_response=False)
    async with call(urls, model, wave, config) as client:
        events = client.events()
        await client.stream_pcm(wave.pcm + wave.silence(200), chunk_ms=100, realtime=False)
        await client.commit(create_response=False)
        try:
            async with asyncio.timeout(timeout_s):
                async for event in events:
                    conversation.take(Heard(time.time(), event))
                    if not (isinstance(event, ErrorEvent) and event.code == "input_audio_buffer_empty"):
                        _refuse_trouble(event)
                    if event.type == COMMITTED and event.item_id:
                        committed.add(event.item_id)
                    if committed and committed <= set(conversation.transcripts):
                        break
        except TimeoutError:
            raise ToolError(f"no transcript within {timeout_s:g} s") from None
    return conversation.question


async def _speak(client: DuplexClient, wave: Wave, conversation: Conversation, *, commits: bool) -> None:
    # Known before it happens: the stream is paced, and an answer may come while it still runs.
    speech_end_ms = wave.speech_end_ms()
    conversation.stream_start_s = time.time()
    conversation.speech_end_s = conversation.stream_start_s + speech_end_ms / 1000
    await client.stream_pcm(wave.pcm, chunk_ms=CHUNK_MS)
    if commits:
        await client.commit()
    # The line stays open: an endpoint is heard in the silence after the words.
    while True:
        await client.stream_pcm(wave.silence(1_000), chunk_ms=CHUNK_MS)


def _is_answered(conversation: Conversation) -> bool:
    """Whether the question was said to its end and an answer to it has come to its own."""
    if not conversation.speech_end_s or time.time() < conversation.speech_end_s:
        return False
    answer = conversation.answer
    is_quiet = all(each.status != "in_progress" for each in conversation.answers.values())
    return is_quiet and answer is not None and _ended_s(conversation, answer) >= conversation.speech_end_s


def _ended_s(conversation: Conversation, answer: Answer) -> float:
    ends = [
        each.at_s
        for each in conversation.heard
        if isinstance(each.event, ResponseDone) and each.event.response_id == answer.response_id
    ]
    return ends[-1] if ends else 0.0


def _refuse_trouble(event: DuplexEvent) -> None:
    if isinstance(event, ErrorEvent):
        raise ToolError(f"the service refused something: {event.code}: {event.message}")
    if isinstance(event, SessionEnded):
        raise ToolError(f"the service ended the session: {event.reason}")
