"""A loaded Nemotron plug-in over toys, one caller of it, and what it said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from duplex_es.model import (
    FeedAudio,
    ModelCalledFunction,
    ModelFinished,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelRemembered,
    ModelSpoke,
    OpenModel,
    Request,
    Signal,
    ToolOutput,
)
from tests.support import ears
from tests.support.toy_nemotron import frame
from workers.models.nemotron import NemotronModel
from workers.models.nemotron.session import NemotronSession

Kind = TypeVar("Kind")
PATIENCE_S = 60.0
MOST_WAITING = 4
ENGINE = "tests.support.toy_nemotron:make"
OPTIONS = {"weights": "random", "shape": "tiny", "speech": "tests.support.toy_talker:make"}
TOOLS = tuple(
    {"type": "function", "name": name, "parameters": {}} for name in ("weather", "time", "light", "door", "music")
)
OPENING = OpenModel(session_id="s", incarnation=0, epoch=0, tools=TOOLS, extra_body={"auto_response": True})


class Ear(ears.Ear[Signal]):
    """One session's signals, in order."""

    def __init__(self) -> None:
        super().__init__(PATIENCE_S)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [one for one in self.heard if isinstance(one, kind)]

    async def has(self, kind: type[Signal], count: int = 1) -> None:
        await self.until(lambda heard: sum(isinstance(one, kind) for one in heard) >= count)

    async def calls(self, count: int = 1) -> list[ModelCalledFunction]:
        await self.has(ModelCalledFunction, count)
        return self.of(ModelCalledFunction)

    @property
    def words(self) -> str:
        spoken = (one for one in self.heard if isinstance(one, ModelProducedAudio | ModelProducedText))
        return "".join(one.text for one in spoken)

    @property
    def sound(self) -> bytes:
        return b"".join(one.pcm for one in self.of(ModelProducedAudio))

    def memory(self) -> bytes:
        return b"".join(one.data for one in self.of(ModelRemembered))

    def open_turn(self) -> int | None:
        """The turn of the answer that is being given, if something of it was heard."""
        shown: int | None = None
        for one in self.heard:
            if isinstance(one, ModelProducedAudio | ModelProducedText):
                shown = one.turn
            elif isinstance(one, ModelFinished | ModelSpoke):
                shown = None
        return shown


class Call:
    """One caller: frames go in as fast as they are said."""

    def __init__(self, session: NemotronSession, ear: Ear) -> None:
        self.session = session
        self.ear = ear
        self._fed = 0

    async def perform(self, request: Request) -> None:
        await self.session.perform(request)

    async def frames(self, *commands: int) -> None:
        """Say these commands, a frame each."""
        for command in commands:
            await self._be_patient()
            self._fed += 1
            await self.perform(FeedAudio(epoch=self.session._voice.epoch, pcm=frame(command), end_ms=0))

    async def _be_patient(self) -> None:
        """Let no more frames wait than an engine takes without dropping any; one that is gone answers none."""
        for _ in range(200):
            waiting = self._fed - len(self.ear.of(ModelRemembered))
            if waiting < MOST_WAITING:
                return
            await asyncio.sleep(0.005)
        self._fed = len(self.ear.of(ModelRemembered))

    async def output(self, call_id: str | None, output: str, **more: object) -> None:
        assert call_id is not None
        await self.perform(ToolOutput(epoch=self.session._voice.epoch, call_id=call_id, output=output, **more))

    async def ends_with(self, words: str) -> None:
        """Be silent until no answer is being given and the last one ended with these words."""
        ended = (ModelFinished, ModelListened, ModelRemembered)
        await self.goes_on_until(
            lambda heard: self.ear.words.endswith(words) and all(isinstance(one, ended) for one in heard[-3:])
        )

    async def goes_on_until(self, holds: Callable[[Sequence[Signal]], bool]) -> None:
        """Be silent, at the pace of speech, until ``holds`` is true of what was heard."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(self.ear.heard):
                await self.frames(0)
                await asyncio.sleep(0.005)


@asynccontextmanager
async def loaded(**options: str) -> AsyncIterator[NemotronModel]:
    """The plug-in over its toys."""
    model = NemotronModel({**OPTIONS, **options}, factory=ENGINE)
    await model.load()
    try:
        yield model
    finally:
        await model.unload()


async def called(model: NemotronModel, ear: Ear | None = None, **fields: object) -> Call:
    """A caller of ``model``; ``fields`` replace those of ``OPENING``."""
    ear = ear or Ear()
    return Call(await model.open(msgspec.structs.replace(OPENING, **fields), ear), ear)
