"""The two protocols a model plug-in implements, and the card it shows of itself.

A plug-in is a factory ``PLUGIN(options: Mapping[str, str]) -> Model``, found by the entry-point group
``duplex_es.models``. Built-in models load the same way. ``duplex_es.testing.model_suite`` tests the promises below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from ..protocol.objects import Capabilities
from .requests import OpenModel, Request
from .signals import Signal

Emit = Callable[[Signal], None]
"""Takes one signal, never blocks, never raises; must be called on the event loop's thread."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What callers may know of a model before they use it. They branch on these, never on the name.

    ``input_rate_hz`` is the rate ``FeedAudio`` arrives at, ``output_rate_hz`` that of ``ModelProducedAudio``.
    ``transcribes`` promises one ``ModelHeardTurn`` for every ``EndTurn``. ``takes_text_turns``: ``Generate`` works from
    text history. ``ends_turns`` promises ``ModelHeardSpeech`` / ``ModelHeardTurn`` from the model's own endpointing.
    ``auto_response`` and ``overlap_policy`` are the defaults a session gets when the client names none.

    ``can_rebuild`` promises that answers go on when the worker dies that is giving them: the model's ``ModelSpoke``
    carry a ``Recipe``, and asked with ``ContinueAnswer``, opened with the settings and the history of the session, any
    other process of the same model gives the same answer, sample for sample and word for word, whatever the pace. An
    answer that comes without a recipe is the exception: it ends as failed when its worker is lost.

    ``memory_bytes`` is for models that never begin anew, but step: what they report by ``ModelRemembered`` is kept, the
    newest so many bytes of it, and handed to the next owner's model. That one is where the lost one was, so an answer
    that was being given goes on by itself, in the same turn, and is not asked for. One that also ``transcribes`` is
    asked again for what is open (turns that nobody understood or answered yet, an announced answer of which nothing
    was said), as nobody else can know whether it was asked before: it ignores what it remembers.

    What the host and the session check for the model: an append holds at most ``longest_append_samples`` at its input
    rate; ``fixed_settings`` cannot change once the session is open; ``private_keys`` of ``extra_body`` are not the
    client's to set (one that ends in ``*`` means all that begin so). ``keeps_audio``: the model keeps what it heard by
    item, so its history holds spoken items without text, too. ``takes_frames``: pictures that come with the audio are
    handed to it; other models never see them. ``without_opt_in`` is the card of a session whose
    client did not send ``extra_body.native_duplex: true``; ``None`` when nothing depends on that.
    """

    name: str
    capabilities: Capabilities
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    transcribes: bool = False
    takes_text_turns: bool = False
    takes_response_options: bool = False
    ends_turns: bool = False
    auto_response: bool = False
    overlap_policy: str = "listen_only"
    can_rebuild: bool = False
    memory_bytes: int = 0
    longest_append_samples: int | None = None
    fixed_settings: tuple[str, ...] = ()
    private_keys: tuple[str, ...] = ()
    keeps_audio: bool = False
    takes_frames: bool = False
    without_opt_in: ModelInfo | None = None

    @property
    def is_chat_lane(self) -> bool:
        """Whether turns are answered one request each, by a model that does not listen while it speaks."""
        return self.capabilities.implementation_level != "model_native_duplex"


class ModelSession(Protocol):
    """One session's model. Owned by one worker actor; calls never overlap."""

    async def perform(self, request: Request) -> None:
        """Carry out one request. Returns when it is accepted, not when its work is done: long work goes on in the

        background and reports by ``emit``. Must not raise for anything the caller said; a fault of the model is
        reported as ``ModelFailed``. After ``CloseModel`` returns nothing is emitted any more.
        """


class Model(Protocol):
    """One loaded model of a worker process, shared by its sessions."""

    info: ModelInfo

    async def load(self) -> None:
        """Load weights and warm up. The worker is not ready before. Raises on failure, with what is missing."""

    async def open(self, request: OpenModel, emit: Emit) -> ModelSession:
        """Begin a session. Signals go to ``emit``. Raises: ModelRefused when the settings cannot be served."""

    async def unload(self) -> None:
        """Free everything; open sessions are gone."""


class ModelRefused(Exception):
    """A session's settings cannot be served; ``code`` is from the wire's error table, ``param`` the failing field."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
