"""One caller of a chat server: turns in, one request for each answer."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import httpx

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    ModelPassedOn,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    ToolOutput,
)

from ..agenda import Agenda
from ..floor import Answer, Floor
from ..pcm import samples_in
from .answering import Called, ChatRefused, Other, Part, Spoken, Used, Written, parts_of, refusal
from .asking import Wish, request_body
from .memory import Memory
from .options import ChatOptions
from .sound import SoundReader, SoundUnusable

PIECE_MS = 200
SHOWN_CHARS = 200


class ChatSession:
    """Keeps the caller's turns and asks the server for each answer. An interruption closes the request."""

    def __init__(self, request: OpenModel, emit: Emit, client: httpx.AsyncClient, options: ChatOptions) -> None:
        self._client = client
        self._options = options
        self._floor = Floor(emit, output_rate_hz=options.output_rate_hz, lead_ms=options.lead_ms)
        self._floor.adopt(request.epoch)
        self._answers = Agenda(self._floor, f"chat {request.session_id}")
        self._memory = Memory(request.history)
        self._extra_body = request.extra_body
        self._wish = self._wished(request)
        self._telling: _Telling | None = None

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._floor.adopt(request.epoch)
                self._memory.hear(request.pcm, request.end_ms)
            case EndTurn():
                self._floor.adopt(request.epoch)
                self._memory.end_turn(request.item_id, request.audio_start_ms)
                if request.respond:
                    self._answers.add(request.epoch, functools.partial(self._answer, self._wish))
            case Generate():
                self._floor.adopt(request.epoch)
                wish = self._wished(request)
                self._answers.add(
                    request.epoch, functools.partial(self._answer, wish, request.history, request.response_id)
                )
            case Interrupt():
                self._interrupted(request)
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._memory.clear()
            case ToolOutput():
                self._floor.adopt(request.epoch)
                self._memory.add(
                    HistoryItem(item_id=request.call_id, role="tool", text=request.output, call_id=request.call_id)
                )
            case ReconfigureModel():
                self._wish = self._wished(request)
            case CloseModel():
                self._floor.close()
                await self._answers.close()

    def _wished(self, request: OpenModel | ReconfigureModel | Generate) -> Wish:
        """The settings, or for one answer what it overrides of them."""
        if isinstance(request, Generate):
            session = self._wish
            return Wish(
                instructions=session.instructions if request.instructions is None else request.instructions,
                modalities=self._modalities(request.modalities),
                voice=session.voice if request.voice is None else request.voice,
                temperature=session.temperature if request.temperature is None else request.temperature,
                max_tokens=request.max_output_tokens,
                tools=session.tools if request.tools is None else request.tools,
                tool_choice=request.tool_choice,
                extra_body=self._extra_body,
            )
        return Wish(
            instructions=request.instructions,
            modalities=self._modalities(request.modalities),
            voice=request.voice,
            temperature=request.temperature,
            tools=request.tools,
            extra_body=self._extra_body,
        )

    def _modalities(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        return wanted if self._options.audio else ("text",)

    async def _answer(
        self, wish: Wish, history: Sequence[HistoryItem] | None = None, response_id: str | None = None
    ) -> None:
        body = request_body(
            self._options.chat_model,
            self._memory.told(history),
            self._memory.speech,
            wish,
            audio_part=self._options.audio_part,
        )
        answer = self._floor.begin(response_id)
        telling = self._telling = _Telling(answer, self._floor, self._options, aloud="audio" in wish.modalities)
        try:
            async with self._client.stream("POST", _address(self._options), json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise _refused(response.status_code, (await response.aread()).decode("utf-8", "replace"))
                async for part in parts_of(response.aiter_lines()):
                    await telling.tell(part)
        except ChatRefused as refused:
            answer.fail(refused.code, str(refused))
        except (httpx.HTTPError, SoundUnusable, ValueError) as error:
            answer.fail("response_error", f"{type(error).__name__}: {error}")
        else:
            telling.finish()
        finally:
            if self._telling is telling:
                self._remember()

    def _interrupted(self, request: Interrupt) -> None:
        cut = self._floor.stop(request.epoch)
        if cut is not None:
            # At once: what comes next may be asked before the cut request has ended.
            self._remember()
        self._answers.drop(request.epoch)
        if request.heard_text is not None:
            self._memory.heard_only(request.heard_text)

    def _remember(self) -> None:
        """The answer is over, however it ended."""
        telling, self._telling = self._telling, None
        for item in telling.said() if telling is not None else ():
            self._memory.add(item)


class _Telling:
    """One answer on its way from the server to the session."""

    def __init__(self, answer: Answer, floor: Floor, options: ChatOptions, *, aloud: bool) -> None:
        self._answer = answer
        self._aloud = aloud
        self._floor = floor
        self._sound = SoundReader(assumed_rate_hz=None if options.audio_metadata else options.output_rate_hz)
        self._untold = ""
        self._used = Used(None, None)
        self._calls: list[Called] = []

    async def tell(self, part: Part) -> None:
        """Signal one part. Raises: SoundUnusable, AnswerCut."""
        match part:
            case Written(text=text):
                self._answer.write(text)
            case Spoken() if not self._aloud:
                if part.transcript:
                    self._answer.write(part.transcript)
            case Spoken():
                self._untold += part.transcript
                await self._say(self._sound.read(part.data, part.metadata))
            case Called():
                self._calls.append(part)
                self._answer.call(part.call_id, part.name, part.arguments)
            case Used():
                self._used = part
            case Other(message=message) if self._answer.is_open:
                self._floor.report(ModelPassedOn(epoch=self._answer.epoch, turn=self._answer.turn, message=message))

    async def _say(self, pcm: bytes) -> None:
        rate_hz = self._sound.rate_hz
        if not pcm or rate_hz is None:
            return
        step = samples_in(PIECE_MS, rate_hz) * 2
        for at in range(0, len(pcm), step):
            text, self._untold = self._untold, ""
            await self._answer.say(pcm[at : at + step], text, rate_hz=rate_hz)

    def finish(self) -> None:
        """The stream ended, and nothing went wrong."""
        if self._untold:
            self._answer.write(self._untold)
        used = self._used
        self._answer.finish(input_tokens=used.read, output_tokens=used.written, cached_tokens=used.cached)

    def said(self) -> list[HistoryItem]:
        """What the session remembers of it, however it ended."""
        name = f"chat_{self._answer.turn}"
        words = HistoryItem(item_id=name, role="assistant", text=self._answer.text)
        calls = [
            HistoryItem(item_id=name, role="assistant", text=call.arguments, call_id=call.call_id, name=call.name)
            for call in self._calls
        ]
        return [words, *calls]


def _address(options: ChatOptions) -> str:
    root = (options.chat_url or "").rstrip("/")
    return root if root.endswith("/chat/completions") else f"{root}/chat/completions"


def _refused(status: int, text: str) -> ChatRefused:
    otherwise = f"the chat server answered {status}: {text[:SHOWN_CHARS]}"
    try:
        return refusal(json.loads(text), otherwise)
    except ValueError:
        return ChatRefused("chat_error", otherwise)
