"""The state of one session, all of it frozen: what ``fold`` rebuilds from the log and ``decide`` reads.

Durations, counts and texts are enough to decide everything; of audio bytes nothing is kept but a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from ..model import Generate, ModelInfo, Recipe, StageMetrics
from ..protocol import PlaybackLedger

T = TypeVar("T", bound=msgspec.Struct)

ZERO_LEDGER = PlaybackLedger(generated_ms=0, sent_ms=0, played_ms=0, committed_ms=0)


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effective configuration of a session; every update replaces it as a whole or not at all.

    ``audio`` and ``extra`` are what the client wrote beyond that, to be shown to it again.
    """

    model: str = ""
    modalities: tuple[str, ...] = ("text", "audio")
    instructions: str | None = None
    voice: str | None = None
    input_format: str = "pcm16"
    input_rate_hz: int = 16_000
    output_format: str = "pcm16"
    output_rate_hz: int | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    speed: float | None = None
    idle_timeout_s: float = 300.0
    auto_response: bool = False
    overlap_policy: str = "listen_only"
    overlap_short_ack_ms: int = 700
    overlap_barge_in_ms: int = 1200
    overlap_silence_rms: float = 0.003
    playback_commit_policy: str = "commit_all_on_done"
    turn_detection: dict[str, object] | None = None
    input_audio_transcription: dict[str, object] | None = None
    tools: tuple[dict[str, object], ...] = ()
    tool_choice: str | dict[str, object] | None = None
    tracing: str | dict[str, object] | None = None
    audio: dict[str, object] = {}
    extra: dict[str, object] = {}
    extra_body: dict[str, object] = {}


class Clock(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much caller audio has arrived, exact over hours: whole samples since the rate last changed."""

    rate_hz: int = 16_000
    samples: int = 0
    base_us: int = 0

    @property
    def ms(self) -> int:
        """Milliseconds of audio since the session opened, rounded down."""
        return (self.base_us + self.samples * 1_000_000 // self.rate_hz) // 1000

    def after(self, samples: int, rate_hz: int) -> Clock:
        """The clock once ``samples`` more have arrived at ``rate_hz``."""
        if rate_hz == self.rate_hz:
            return Clock(rate_hz, self.samples + samples, self.base_us)
        return Clock(rate_hz, samples, self.base_us + self.samples * 1_000_000 // self.rate_hz)


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Caller audio that no committed turn holds yet.

    Everything but the clock counts since the last commit or clear, which was at ``since_ms``; ``item_id`` is set while
    an input item is open (speech began), ``transcript`` gathers the client's own hints, ``last_hint`` is the newest.
    ``text`` was typed into the open item; ``start_ms`` is where a detector heard the utterance begin.
    ``model_item_id`` is the turn that the model ended by itself since the last client commit: a late commit is answered
    with it. ``sealed`` says that the client committed or cleared last: a turn that the model reports before it hears
    speech again is one the client has already disposed of.
    """

    clock: Clock = Clock()
    since_ms: int = 0
    has_audio: bool = False
    has_speech: bool = False
    speech_ms: int = 0
    item_id: str | None = None
    speech_started: bool = False
    speech_stopped: bool = False
    transcript: str = ""
    last_hint: str = ""
    model_item_id: str | None = None
    sealed: bool = False
    text: str = ""
    start_ms: int | None = None

    @property
    def buffered_ms(self) -> int:
        """How much caller audio no turn holds yet."""
        return self.clock.ms - self.since_ms

    def emptied(self, model_item_id: str | None = None, *, sealed: bool = False) -> Input:
        """The input from now on, with nothing in it."""
        return Input(clock=self.clock, since_ms=self.clock.ms, model_item_id=model_item_id, sealed=sealed)


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation item. ``part`` is its content: ``text`` typed, ``audio`` spoken, empty for function items.

    For an assistant message ``transcript`` and ``text`` grow while it speaks, ``marks`` tie characters to audio
    (characters, end in ms, both cumulative), ``ledger`` says how far it was generated, sent, played and committed,
    and ``cap_ms`` is the smallest truncation it ever got. ``remembered`` says whether it is in the history that the
    model is given; ``heard_only`` that only the part the caller heard is. ``acked`` says that the client's reports tell
    how far that was; without it, what was sent counts as heard. ``apart`` keeps an answer out of the history for good.
    ``transcribing`` marks a committed user item whose transcript is still to come, ``audio_ms`` is how long it took.
    """

    id: str
    type: str = "message"
    role: str | None = None
    status: str = "completed"
    part: str = ""
    text: str = ""
    transcript: str = ""
    previous_item_id: str | None = None
    response_id: str | None = None
    marks: tuple[tuple[int, int], ...] = ()
    ledger: PlaybackLedger = ZERO_LEDGER
    cap_ms: int | None = None
    remembered: bool = True
    heard_only: bool = False
    acked: bool = False
    apart: bool = False
    transcribing: bool = False
    audio_ms: int = 0
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None


class StageTotal(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one stage of the model did for an answer so far; its ``vllm_tpot_ms`` is the mean over ``weight`` tokens."""

    sum: StageMetrics = StageMetrics()
    weight: int = 0


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one answer that is being given. Its texts and ledger live in its item.

    ``turn`` is the model's own turn, ``None`` until the model takes up a response that was announced first.
    ``requested`` says that the model was asked for it by ``Generate`` and so answers by its id; ``held`` is that
    request while it waits for the transcript it is about, ``asked`` the same without the history, for as long as the
    answer is open. ``output_format`` and ``output_rate_hz`` are the sound the client wants for this answer, ``None`` as
    the session has it. ``parts`` are the content parts opened so far.

    With a ``recipe`` another worker's model can give the answer again; ``size`` and ``crc`` (CRC-32) of the audio bytes
    shown so far tell whether it is the same one. Without one they stay 0. ``measured`` is what the model told of its
    own work on it, by stage.
    """

    id: str
    item_id: str
    turn_id: int
    turn: int | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    output_format: str | None = None
    output_rate_hz: int | None = None
    metadata: dict[str, object] | None = None
    requested: bool = False
    held: Generate | None = None
    asked: Generate | None = None
    samples: int = 0
    parts: tuple[str, ...] = ()
    recipe: Recipe | None = None
    size: int = 0
    crc: int = 0
    measured: dict[str, StageTotal] = {}


class Overlap(msgspec.Struct, frozen=True, omit_defaults=True):
    """Caller speech over the answer: how much so far, and the decision on it that was shown last."""

    speech_ms: int = 0
    shown: str = ""


class Waiting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A committed turn whose answer waits until the one being given is over.

    ``item_id`` is the newest of the ``count`` commits it holds. ``respond``: an answer is wanted; ``asked``: the client
    asked for it itself and is told of it at once. ``untold``: the model does not know of the commit yet. ``failed``:
    the answer before it failed; only the client can ask for this one now. ``again``: the model that owed the answer is
    gone; the next one is asked for it from the words.
    """

    item_id: str
    count: int = 1
    respond: bool = False
    asked: bool = False
    untold: bool = False
    failed: bool = False
    again: bool = False


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One function call: ``open``, ``completed`` by its output, ``cancelled`` when its item was deleted, or ``stale``.

    ``imported``: the client put it into the history; nobody waits for its output.
    """

    call_id: str
    item_id: str
    state: str = "open"
    imported: bool = False


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn of the model of which nothing is to be seen yet, perhaps never will be.

    ``response_id`` is the request it answers, if it said so; ``called`` that it asked for a function meanwhile; with a
    ``recipe`` another worker's model can begin it again. ``measured`` is as in ``Response``, which it becomes.
    """

    turn: int
    response_id: str | None = None
    called: bool = False
    recipe: Recipe | None = None
    measured: dict[str, StageTotal] = {}


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a decision may depend on.

    ``state`` is ``new`` until the opening command was decided, then ``open``, then ``closed``; ``opened_by`` is the
    client's own id of that command. ``epoch`` is the interruption fence, ``turn_id`` counts finished model turns.
    ``begun`` is the turn the model is in while there is nothing to show of it. ``owed`` is the committed item the model
    still owes an answer for; ``waiting`` is a turn that comes after the answer being given. ``forced`` counts the
    appends of this turn that the model had to listen to. ``input_epoch`` is the epoch of the last input clear: what the
    model heard before it is stale. ``acks_playback`` says that this client reports playback at all; one that never does
    is taken to hear what it is sent. ``last_response_id`` resolves requests that name none. Of ``usage_input_ms``,
    ``usage_told_ms`` are in the usage of a response already. The session is over at ``ends_at_ms``; the timers of its
    owner run since ``timed_from_ms``. ``awaits_first``: it is a copy that no client has taken up yet.
    ``memory`` is what a model that steps has left for its successor.
    """

    id: str = ""
    incarnation: int = 0
    state: str = "new"
    opened_by: str | None = None
    ends_at_ms: int | None = None
    awaits_first: bool = False
    timed_from_ms: int = 0
    expiry_told: bool = False
    generation: int = 0
    attached: bool = False
    dialect: str = "duplex"
    epoch: int = 0
    input_epoch: int = 0
    turn_id: int = 0
    turn_state: str = "idle"
    acks_playback: bool = False
    info: ModelInfo | None = None
    settings: Settings = Settings()
    input: Input = Input()
    response: Response | None = None
    begun: Begun | None = None
    items: tuple[Item, ...] = ()
    responses_count: int = 0
    items_count: int = 0
    owed: str | None = None
    waiting: Waiting | None = None
    overlap: Overlap = Overlap()
    forced: int = 0
    calls: tuple[Call, ...] = ()
    last_response_id: str | None = None
    usage_input_ms: int = 0
    usage_output_ms: int = 0
    usage_told_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    memory: bytes = b""

    @property
    def asks_for_answers(self) -> bool:
        """Whether the client is one that knows only plain OpenAI Realtime, and asks for answers to function calls."""
        return self.dialect in ("ga", "beta")

    @property
    def is_chat_lane(self) -> bool:
        """Whether turns are answered one request each, by a model that does not listen while it speaks."""
        return self.info is not None and self.info.is_chat_lane

    @property
    def judges_speech(self) -> bool:
        """Whether the session, not its model, decides what speech over an answer means."""
        return self.info is not None and not self.info.ends_turns and not self.info.is_chat_lane

    @property
    def last_item_id(self) -> str | None:
        """The id a new item comes after."""
        return self.items[-1].id if self.items else None

    def item(self, item_id: str | None) -> Item | None:
        """The item of this id, or ``None``."""
        return next((item for item in reversed(self.items) if item.id == item_id), None)

    @property
    def history_len(self) -> int:
        """How many items the conversation counts: what the caller said, and what of the rest is remembered."""
        return sum(1 for item in self.items if item.remembered or item.role == "user")

    @property
    def is_transcribing(self) -> bool:
        """Whether the transcript of a committed item is still to come."""
        return any(item.transcribing for item in self.items)

    def with_item(self, item: Item) -> Session:
        """The session with ``item`` replacing the one of its id, or added at the end."""
        if any(known.id == item.id for known in self.items):
            items = tuple(item if known.id == item.id else known for known in self.items)
        else:
            items = (*self.items, item)
        return msgspec.structs.replace(self, items=items)

    def answers(self) -> Iterator[Item]:
        """The messages of this session's responses, newest first; not those that a client wrote."""
        return (item for item in reversed(self.items) if item.response_id is not None and item.type == "message")

    @property
    def unheard(self) -> Item | None:
        """With ``ack_only``: the newest answer whose playback the client has not confirmed to its end."""
        if self.settings.playback_commit_policy != "ack_only":
            return None
        newest = next(self.answers(), None)
        if newest and newest.status == "completed" and newest.ledger.sent_ms > newest.ledger.committed_ms:
            return newest if newest.cap_ms is None else None
        return None

    @property
    def is_at_rest(self) -> bool:
        """Whether a new owner would lose nothing: no answer is given, owed or to come, and nobody is speaking."""
        busy = (self.response, self.begun, self.owed, self.waiting)
        is_speaking = self.input.item_id is not None and not self.input.speech_stopped
        return all(one is None for one in busy) and not is_speaking

    @property
    def in_progress(self) -> bool:
        """Whether an answer is being given or not yet heard to its end (contract of cancel, overlap and defer)."""
        return self.response is not None or self.unheard is not None


def replace(value: T, **changes: object) -> T:
    """``value`` with these fields changed."""
    return msgspec.structs.replace(value, **changes)
