"""One caller of a model that answers when it is asked: turns in, one answer after another.

What a session of such a model has in common, whoever gives the answers: a server, or an engine.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    ToolOutput,
)

from .agenda import Agenda
from .floor import Floor
from .memory import Memory


class Told(Protocol):
    """An answer while it is given."""

    def said(self) -> Iterable[HistoryItem]:
        """What of it the conversation keeps."""


Wish = TypeVar("Wish")
Telling = TypeVar("Telling", bound=Told)


class AskedSession(ABC, Generic[Wish, Telling]):
    """Keeps the caller's turns and asks for each answer. ``_wish`` is what the session wants of all its answers."""

    _wish: Wish

    def __init__(self, request: OpenModel, floor: Floor, name: str) -> None:
        self._floor = floor
        self._floor.adopt(request.epoch)
        self._answers = Agenda(floor, name)
        self._memory = Memory(request.history)
        self._telling: Telling | None = None

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._floor.adopt(request.epoch)
                self._memory.hear(request.pcm, request.end_ms)
            case EndTurn():
                self._floor.adopt(request.epoch)
                self._memory.end_turn(request.item_id, request.audio_start_ms)
                self._turn_ended(request)
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
                await self._close()

    @abstractmethod
    def _wished(self, request: ReconfigureModel | Generate) -> Wish:
        """The session's new settings, or for one answer what it overrides of them."""

    @abstractmethod
    async def _answer(
        self, wish: Wish, history: Sequence[HistoryItem] | None = None, response_id: str | None = None
    ) -> None:
        """Give one answer; ``_telling`` is it meanwhile, and ``_remember`` is called once it is over."""

    def _turn_ended(self, request: EndTurn) -> None:
        """The caller's turn is over: answer it, if it asks for an answer."""
        if request.respond:
            self._answers.add(request.epoch, functools.partial(self._answer, self._wish))

    async def _close(self) -> None:
        await self._answers.close()

    def _interrupted(self, request: Interrupt) -> None:
        cut = self._floor.stop(request.epoch)
        if cut is not None:
            # At once: what comes next may be asked before the cut answer has ended.
            self._remember()
        self._answers.drop(request.epoch)
        if request.heard_text is not None:
            self._memory.heard_only(request.heard_text)

    def _remember(self) -> None:
        """The answer is over, however it ended."""
        telling, self._telling = self._telling, None
        for item in telling.said() if telling is not None else ():
            self._memory.add(item)
