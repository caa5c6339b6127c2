"""Decides what to say: the client's tools, then the rules, then a chat server or a small language model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import Executor

from ...speech.sentences import split_sentences
from . import smalltalk
from .chat import ChatFailed, ChatServer
from .outputs import say_output
from .rules import answer_by_rules
from .scene import Call, Counted, Part, Say, Scene
from .smollm import SmolLm
from .tools import wanted_tool

log = logging.getLogger(__name__)

LEAD_IN = "Let me check."
NOTHING_ASKED = "Hello. How can I help you?"


class Mind:
    """Answers scenes. Holds no memory of any conversation, so that any worker answers alike."""

    def __init__(
        self,
        *,
        chat: ChatServer | None = None,
        small: SmolLm | None = None,
        executor: Executor | None = None,
        with_rules: bool = True,
    ) -> None:
        """``executor`` runs the small language model. ``with_rules`` off leaves everything to the chat server."""
        self._chat = chat
        self._small = small
        self._executor = executor
        self._with_rules = with_rules or chat is None

    @property
    def plans_ahead(self) -> bool:
        """Whether an answer is known as a whole before it begins; a chat server's comes bit by bit."""
        return self._chat is None

    async def close(self) -> None:
        """Close what was opened."""
        if self._chat is not None:
            await self._chat.close()

    async def reply(self, scene: Scene) -> AsyncGenerator[Part, None]:
        """The parts of one answer, at least one of them speech. Never raises for what a server or model does wrong."""
        spoken, complete = None, False
        if self._with_rules:
            wanted = wanted_tool(scene) if smalltalk.stop(scene, scene.utterance) is None else None
            if wanted is not None:
                yield Say(LEAD_IN if wanted.call else wanted.question)
                if wanted.call:
                    yield wanted.call
                return
            spoken, complete = answer_by_rules(scene)
        if not scene.utterance.strip() and self._chat is None:
            spoken, complete = NOTHING_ASKED, True
        if spoken is None or not complete:
            answered = False
            async for part in self._thought(scene):
                answered = answered or not isinstance(part, Counted)
                yield part
            if answered:
                return
        for sentence in split_sentences(spoken or admission(scene.utterance)):
            yield Say(sentence)

    async def tell_output(self, scene: Scene, output: str) -> AsyncGenerator[Part, None]:
        """The parts that say a tool's output; the scene has an empty utterance and the output as its last line."""
        told = False
        if self._chat is not None:
            async for part in self._thought(scene):
                told = told or not isinstance(part, Counted)
                yield part
        if not told:
            for sentence in split_sentences(say_output(output)):
                yield Say(sentence)

    async def _thought(self, scene: Scene) -> AsyncGenerator[Part, None]:
        """What a model says; nothing when there is none or it failed."""
        if self._chat is not None:
            spoke = False
            try:
                async for part in self._chat.reply(scene):
                    if not spoke and isinstance(part, Call):
                        yield Say(LEAD_IN)
                    spoke = spoke or not isinstance(part, Counted)
                    yield part
            except ChatFailed as error:
                log.warning("the chat server gave no answer: %s", error)
        elif self._small is not None and scene.utterance.strip():
            words, counted = await self._small_talk(self._small, scene)
            for sentence in split_sentences(words):
                yield Say(sentence)
            if counted.made:
                yield counted

    async def _small_talk(self, small: SmolLm, scene: Scene) -> tuple[str, Counted]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, small.reply, scene)
        except Exception:
            log.exception("the small language model failed")
            return "", Counted()


def admission(utterance: str) -> str:
    """Says back what was heard, and that there is no answer to it."""
    heard = " ".join(utterance.split()).rstrip(".!?,;: ")
    if not heard:
        return "I did not hear anything."
    return f"I heard you say: {heard}. I do not know about that yet."
