"""Every fact a session records, past tense. What is not here did not happen.

Facts are stored for good: a new field gets a default, a changed meaning gets a new fact and an upcast.
"""

from __future__ import annotations

import msgspec

from ..model import ModelInfo, Recipe, StageMetrics
from ..protocol import PlaybackLedger
from .state import Item, Settings


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fact"):
    """One recorded fact; the ``fact`` key of its map names it."""


# -- lifecycle -----------------------------------------------------------------------------------------------------


class SessionOpened(Fact, frozen=True, kw_only=True):
    """The opening command was accepted. ``updated`` says that it came as a ``session.update`` and is echoed as one.

    ``ends_at_ms`` is when the session is over whatever happens, on the clock of ``opened_at_ms``.
    """

    session_id: str
    incarnation: int
    info: ModelInfo
    settings: Settings
    updated: bool = True
    event_id: str | None = None
    dialect: str = "duplex"
    opened_at_ms: int = 0
    ends_at_ms: int | None = None


class SessionRefused(Fact, frozen=True, kw_only=True):
    """The opening command was refused; the session never opened."""

    code: str
    message: str
    param: str | None = None
    event_id: str | None = None


class SessionReconfigured(Fact, frozen=True, kw_only=True):
    """All settings were replaced."""

    settings: Settings


class SocketChanged(Fact, frozen=True, kw_only=True):
    """A socket attached under ``generation``, or left (``attached=False``). ``dialect`` is what it speaks."""

    generation: int
    attached: bool
    dialect: str = "duplex"


class SessionForked(Fact, frozen=True, kw_only=True):
    """What was recorded before is a copy of the life ``incarnation`` of ``session_id``, up to its frame ``seq``."""

    session_id: str
    incarnation: int
    seq: int


class HeartbeatAnswered(Fact, frozen=True, kw_only=True):
    """A heartbeat came and was answered."""


class CommandRejected(Fact, frozen=True, kw_only=True):
    """A command changed nothing; the client is told why. ``event_id`` is the client's own."""

    code: str
    message: str
    param: str | None = None
    event_id: str | None = None


class SessionClosed(Fact, frozen=True, kw_only=True):
    """The session ended; ``reason`` is one of the wire's closing reasons, ``usage`` what it cost in all."""

    reason: str
    usage: dict[str, int | float] | None = None


class ExpiryAnnounced(Fact, frozen=True, kw_only=True):
    """The client was told that the session will be over in ``grace_ms``."""

    grace_ms: int


class SessionExpired(Fact, frozen=True, kw_only=True):
    """The session ended because nobody came back for it, or because it had lasted as long as it may."""

    reason: str


# -- listening -----------------------------------------------------------------------------------------------------


class AudioAppended(Fact, frozen=True, kw_only=True):
    """Caller audio arrived: how much, not which. ``is_speech`` is the verdict, ``hinted`` says that it is not a guess

    from loudness; ``hint`` is a transcript the client offered. ``overlaps``: an answer was in progress. ``dropped``:
    neither kept nor given to the model. ``forced``: the model may neither end the turn nor speak because of it;
    ``counted``: that is one of the appends that begin a turn. Appends in a row may be recorded as one (``merged``).
    ``part`` is the content part it came in, of an item that the client created.
    """

    samples: int
    rate_hz: int
    is_speech: bool = True
    hinted: bool = False
    hint: str = ""
    overlaps: bool = False
    dropped: bool = False
    forced: bool = False
    counted: bool = False
    part: int | None = None


class OverlapDecided(Fact, frozen=True, kw_only=True):
    """How caller audio over an answer is taken: ``drop``, ``listen`` or ``barge_in``, and why.

    ``overlap_ms`` is the speech over the answer so far, ``duration_ms`` that of this piece. ``forgets``: what was said
    over the answer is forgotten, ``resets``: no longer counted.
    """

    policy: str
    action: str
    reason: str
    overlap_ms: int = 0
    duration_ms: int | None = None
    buffer_audio: bool | None = None
    defer_runtime_append: bool | None = None
    force_listen: bool | None = None
    cancel_reason: str | None = None
    preserve_realtime_input: bool | None = None
    resets: bool = False
    forgets: bool = False


class TextAppended(Fact, frozen=True, kw_only=True):
    """The client typed into the open input item."""

    text: str


class SpeechStarted(Fact, frozen=True, kw_only=True):
    """The caller began to speak; ``item_id`` is the item this utterance will become.

    ``detected``: a detector says where; nothing from before ``start_ms`` belongs to it.
    """

    item_id: str
    start_ms: int
    detected: bool = False


class SpeechStopped(Fact, frozen=True, kw_only=True):
    """The caller stopped. ``kept=False``: the open item is forgotten, nothing will come of it."""

    item_id: str
    end_ms: int
    kept: bool = True


class InputCommitted(Fact, frozen=True, kw_only=True):
    """The buffered utterance became the user item ``item_id``. ``by_model``: the model ended the turn by itself.

    ``transcribing``: the transcript is still to come. ``respond``: an answer is wanted, ``deferred``: but not before
    the one being given is over. ``overlap_deferred``: it was said over that answer, and waits with it (``asked``: the
    client asked for its answer). ``waits``: it is told to the model now and answered later. ``created``: the
    client created it as an item, to follow ``previous_item_id``. ``text`` is what was typed into it, ``has_audio`` that
    it was spoken, for ``audio_ms``.
    """

    item_id: str
    turn_id: int
    transcript: str = ""
    transcribing: bool = False
    by_model: bool = False
    respond: bool = False
    deferred: bool = False
    overlap_deferred: bool = False
    waits: bool = False
    asked: bool = False
    created: bool = False
    previous_item_id: str | None = None
    text: str = ""
    has_audio: bool = True
    audio_ms: int | None = None
    audio_start_ms: int | None = None


class TurnPromoted(Fact, frozen=True, kw_only=True):
    """It is the turn of what waited behind an answer: ``item_id``. ``respond``: an answer is wanted."""

    item_id: str
    respond: bool = False


class InputTranscribed(Fact, frozen=True, kw_only=True):
    """The transcript of a committed user item is known; it may be empty. ``failed`` says why there is none."""

    item_id: str
    transcript: str = ""
    failed: str | None = None


class TranscriptGrown(Fact, frozen=True, kw_only=True):
    """The next words of a transcript that is still to come were shown; they are kept nowhere."""

    item_id: str
    text: str


class CommitRepeated(Fact, frozen=True, kw_only=True):
    """The client committed a turn that the model had already ended as ``item_id``; it is told again."""

    item_id: str


class SilenceCommitted(Fact, frozen=True, kw_only=True):
    """The buffer is empty again without an item: it held no speech, or only an acknowledgement (``overlap_ack``).

    ``item_id`` is the one it would have become; absent in old records, which show nothing.
    """

    item_id: str | None = None
    overlap_ack: bool = False


class InputCleared(Fact, frozen=True, kw_only=True):
    """Uncommitted input was dropped."""


# -- responses -----------------------------------------------------------------------------------------------------


class ResponseStarted(Fact, frozen=True, kw_only=True):
    """An answer begins. ``turn`` is absent when it is announced before the model speaks; then ``generate`` may ask
    the model for it. ``options`` are the client's overrides for this one answer."""

    response_id: str
    turn: int | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    metadata: dict[str, object] | None = None
    conversation: str | None = None
    generate: bool = False
    instructions: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    voice: str | None = None
    tools: tuple[dict[str, object], ...] | None = None
    tool_choice: str | dict[str, object] | None = None
    prompt: dict[str, object] | None = None
    output_format: str | None = None
    output_rate_hz: int | None = None


class TurnBegun(Fact, frozen=True, kw_only=True):
    """The model began its turn; nothing is to be heard of it yet. ``response_id`` is the request it answers.

    ``recipe`` is what another process of the model needs to give this answer again. ``called``: it had asked for a
    function in it already when its worker changed.
    """

    turn: int
    response_id: str | None = None
    recipe: Recipe | None = None
    called: bool = False


class TurnEndedEmpty(Fact, frozen=True, kw_only=True):
    """The model's turn ended before anything of it was to be heard."""

    turn: int


class ResponseSpoken(Fact, frozen=True, kw_only=True):
    """The response is the model's turn ``turn``, of which now something is to be heard."""

    response_id: str
    turn: int


class AudioProduced(Fact, frozen=True, kw_only=True):
    """The next piece of speech was accepted for output; its bytes lie beside the frame.

    ``samples`` at ``rate_hz`` are the model's own, which durations are counted in; the bytes are in ``format`` at
    ``sent_rate_hz``, absent where that is the same. Of an answer that can be given again, ``size`` is how many bytes
    these are, and ``crc`` the CRC-32 of all audio bytes of the answer up to their end.
    """

    response_id: str
    samples: int
    rate_hz: int
    text: str = ""
    format: str = "pcm16"
    sent_rate_hz: int | None = None
    size: int = 0
    crc: int = 0


class TextProduced(Fact, frozen=True, kw_only=True):
    """The next piece of a text answer."""

    response_id: str
    text: str


class StagesMeasured(Fact, frozen=True, kw_only=True):
    """The model told what its stages did for its turn ``turn`` since it told of it last, as far as it makes sense.

    Recorded only where the client asked for it.
    """

    turn: int
    stages: dict[str, StageMetrics]


class ResponseFinished(Fact, frozen=True, kw_only=True):
    """The answer ended: ``completed``, ``cancelled`` or ``failed``. ``epoch`` holds from here on.

    ``remembered``: its text entered the history now. ``cleared_output``: the client asked to drop queued audio.
    ``input_ms`` is the caller's sound that no response before has been counted with, ``output_ms`` its own.
    """

    response_id: str
    status: str
    epoch: int
    reason: str | None = None
    remembered: bool = True
    cleared_output: bool = False
    cleared_input: bool = False
    by_model: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    input_ms: int | None = None
    output_ms: int | None = None


class EpochAdvanced(Fact, frozen=True, kw_only=True):
    """The fence moved without a response to cancel; everything older is stale."""

    epoch: int
    cleared_input: bool = True


class OutputCleared(Fact, frozen=True, kw_only=True):
    """The client dropped queued output audio although nothing was being generated."""

    response_id: str | None = None


class Listened(Fact, frozen=True, kw_only=True):
    """The model, or the policy for it, kept listening. ``response_id`` when that ends an announced response."""

    reason: str
    response_id: str | None = None


class FunctionCalled(Fact, frozen=True, kw_only=True):
    """The model asked for a function; it is an item and a response of its own."""

    response_id: str
    item_id: str
    call_id: str
    name: str
    arguments: str


class FunctionCallMalformed(Fact, frozen=True, kw_only=True):
    """A tool call that cannot be answered, without a name or an id of its own; the client is shown it raw."""

    call_id: str | None
    name: str | None
    arguments: str


class MessagePassedOn(Fact, frozen=True, kw_only=True):
    """The model's server said something that has no place in an answer."""

    message: dict[str, object]
    response_id: str | None = None


class TurnSignalled(Fact, frozen=True, kw_only=True):
    """An external turn-taking signal was noted."""

    event: str


# -- playback and conversation -------------------------------------------------------------------------------------


class PlaybackAcknowledged(Fact, frozen=True, kw_only=True):
    """The client reported playback. ``played_ms`` and ``committed_ms`` as it said them; ``ledger``, ``cap_ms`` and
    ``remembered`` are the item's from here on."""

    item_id: str
    ledger: PlaybackLedger
    cap_ms: int | None = None
    remembered: bool = True
    played_ms: int
    committed_ms: int
    truncate: bool = False
    history_committed: bool = False


class ItemCreated(Fact, frozen=True, kw_only=True):
    """An item entered the conversation; ``previous_item_id`` as the client gave it."""

    item: Item


class ItemRetrieved(Fact, frozen=True, kw_only=True):
    """The client asked for an item and was shown it."""

    item: Item


class ItemDeleted(Fact, frozen=True, kw_only=True):
    """An item left the conversation."""

    item_id: str


class ItemTruncated(Fact, frozen=True, kw_only=True):
    """An assistant item was cut at ``audio_end_ms``; ``ledger``, ``cap_ms`` and ``remembered`` are the item's now."""

    item_id: str
    content_index: int
    audio_end_ms: int
    ledger: PlaybackLedger
    cap_ms: int | None = None
    remembered: bool = True


class WorkerChanged(Fact, frozen=True, kw_only=True):
    """A new worker claimed the session as ``fence``; its timers begin at ``at_ms``."""

    fence: int
    at_ms: int = 0


class AnswerContinued(Fact, frozen=True, kw_only=True):
    """The new worker's model gives the answer again that is its turn ``turn``; where it was left off, it goes on."""

    turn: int
    response_id: str | None = None


class AnswerAskedAgain(Fact, frozen=True, kw_only=True):
    """The new worker's model is asked for the answer that was announced, and of which nothing had been said."""

    response_id: str


class AnswerPutOff(Fact, frozen=True, kw_only=True):
    """The answer to ``item_id``, which the lost model owed, is asked for when the one that goes on is over."""

    item_id: str


class MemoryGrown(Fact, frozen=True, kw_only=True):
    """The model left ``data`` for a successor, after what it had left before, or ``anew`` in its place."""

    data: bytes
    anew: bool = False


class InputSkipped(Fact, frozen=True, kw_only=True):
    """The model fell behind, and ``duration_ms`` of what the caller said were thrown away."""

    duration_ms: int


class TurnHeardAgain(Fact, frozen=True, kw_only=True):
    """The new worker's model hears a committed turn again whose words, or whose answer, went with the old one's.

    ``respond``: an answer to it is owed.
    """

    item_id: str
    respond: bool = False


class ModelRestarted(Fact, frozen=True, kw_only=True):
    """The model was opened anew, because what it gave again was not the answer that had been begun."""


FACTS: dict[str, type[Fact]] = {kind.__name__: kind for kind in Fact.__subclasses__()}
