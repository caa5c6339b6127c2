"""What a model reports, past tense, the speaker first. All frozen.

``epoch`` is the one of the request that caused the work. One answer is the sequence
``ModelSpoke (ModelProducedAudio | ModelProducedText)* (ModelFinished | ModelInterrupted | ModelFailed)``;
its ``turn`` numbers the model's own turns from 0 and never goes down. ``ModelMeasured`` may come anywhere inside it.
"""

from __future__ import annotations

import msgspec

from .recipe import Recipe
from .stages import StageMetrics


class ModelHeardSpeech(msgspec.Struct, frozen=True, kw_only=True):
    """The caller began to speak at ``start_ms`` on the session's input clock."""

    epoch: int
    start_ms: int


class ModelHeardSpeechEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The caller stopped at ``end_ms``. Follows ``ModelHeardSpeech``; ``is_turn=False`` means nothing comes of it."""

    epoch: int
    end_ms: int
    is_turn: bool = True


class ModelHeardTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller said. With ``item_id`` it completes that committed item; without, the model ended the turn.

    ``transcript`` may be empty (nothing understood); the item is finished all the same. ``failed`` says why nothing
    could be understood at all: the recogniser failed.
    """

    epoch: int
    transcript: str
    item_id: str | None = None
    audio_ms: int = 0
    failed: str | None = None


class ModelHeardWords(msgspec.Struct, frozen=True, kw_only=True):
    """The next words of a committed item whose ``ModelHeardTurn`` is still to come, the newest one unless named.

    They are shown as they come and kept nowhere: what counts is the transcript of the turn.
    """

    epoch: int
    text: str
    item_id: str | None = None


class ModelListened(msgspec.Struct, frozen=True, kw_only=True):
    """The model decided to keep listening. ``reason`` is one of the wire's listen reasons."""

    epoch: int
    reason: str = "model_listen"
    response_id: str | None = None


class ModelSpoke(msgspec.Struct, frozen=True, kw_only=True):
    """The model decided to speak. ``response_id`` is set when it answers a ``Generate``.

    With a ``recipe`` the answer can be given again by any other process with this model, should this one die of it.
    """

    epoch: int
    turn: int
    response_id: str | None = None
    recipe: Recipe | None = None


class ModelProducedAudio(msgspec.Struct, frozen=True, kw_only=True):
    """The next piece of speech: ``pcm`` mono int16 little-endian at the model's ``output_rate_hz``, and its text.

    Pieces follow each other without gaps; ``text`` concatenated over an answer is its exact transcript. ``rate_hz``
    is for models whose answers differ in it; it stays the same within an answer.
    """

    epoch: int
    turn: int
    pcm: bytes
    text: str = ""
    rate_hz: int | None = None


class ModelProducedText(msgspec.Struct, frozen=True, kw_only=True):
    """The next piece of a text-only answer."""

    epoch: int
    turn: int
    text: str


class ModelFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The answer is complete. Token counts only where the model has them; ``cached_tokens`` are among the input's."""

    epoch: int
    turn: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class ModelMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages of the model did for this answer since its last ``ModelMeasured``, by the stage's number.

    Optional, any number of times between ``ModelSpoke`` and the end. Once is enough, but an answer that is cut shows
    only what was told by then. Stage ``0`` is the one that makes the words. The session adds up what comes, and shows
    it where its client asked (``extra_body.return_stage_metrics``). An answer that is given again (``ContinueAnswer``)
    is measured again, from its beginning.
    """

    epoch: int
    turn: int
    stages: dict[str, StageMetrics]


class ModelInterrupted(msgspec.Struct, frozen=True, kw_only=True):
    """The model cut its own answer because the caller spoke over it.

    The session answers by raising the epoch by one, and so does the model by itself: what it signals after this one
    carries ``epoch + 1``.
    """

    epoch: int
    turn: int
    reason: str = "barge_in"


class ModelCalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call; ``arguments`` is a JSON text. ``call_id`` or ``name`` missing makes it malformed, not fatal."""

    epoch: int
    turn: int
    call_id: str | None
    name: str | None
    arguments: str


class ModelFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The model could not go on with this answer (``fatal=False``) or with this session (``fatal=True``)."""

    epoch: int
    code: str
    message: str
    fatal: bool = False


class ModelRemembered(msgspec.Struct, frozen=True, kw_only=True):
    """What another process of the model needs to be where this one is: ``data`` comes after all it reported before.

    With ``anew`` it replaces that. Kept in the session's log, the newest ``ModelInfo.memory_bytes`` of it, and handed
    to the next owner's model in ``OpenModel.memory``. It is saved together with the signal that comes right after it,
    or neither is: a model that says where it will be, and then what that came of, repeats and loses nothing.
    """

    epoch: int
    data: bytes
    anew: bool = False


class ModelDroppedInput(msgspec.Struct, frozen=True, kw_only=True):
    """The model could not keep up: ``duration_ms`` of caller audio were thrown away, the oldest that waited."""

    epoch: int
    duration_ms: int


class ModelPassedOn(msgspec.Struct, frozen=True, kw_only=True):
    """Something a chat server sent that has no place in an answer; shown to the client as it came."""

    epoch: int
    turn: int
    message: dict[str, object]


Signal = (
    ModelHeardSpeech
    | ModelHeardSpeechEnd
    | ModelHeardTurn
    | ModelHeardWords
    | ModelListened
    | ModelSpoke
    | ModelProducedAudio
    | ModelProducedText
    | ModelFinished
    | ModelMeasured
    | ModelInterrupted
    | ModelCalledFunction
    | ModelFailed
    | ModelPassedOn
    | ModelRemembered
    | ModelDroppedInput
)
