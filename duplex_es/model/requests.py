"""What the session asks of its model. All frozen; a model performs them in the order it gets them.

Every request that starts or feeds work carries the ``epoch`` it belongs to, and the model returns it in its signals:
what arrives with an older epoch than the session's is stale and dropped.
"""

from __future__ import annotations

import msgspec

from .recipe import Recipe


class HistoryItem(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered exchange: ``role`` is ``system``, ``user``, ``assistant`` or ``tool``.

    ``text`` is what was said, for an interrupted assistant only the part that was heard. For ``tool`` it is the
    output of ``call_id``; an assistant item with ``call_id`` is the call itself, ``text`` its JSON arguments.
    ``spoken``: the caller said it aloud; ``text`` may then be empty, for models that keep what they heard by item.
    """

    item_id: str
    role: str
    text: str
    call_id: str | None = None
    name: str | None = None
    spoken: bool = False


class OpenModel(msgspec.Struct, frozen=True, kw_only=True):
    """Begin (or, after a takeover, rebuild) one session. Sent once, first.

    ``ref_audio`` is the voice the client gave: a URI or a data URL, as it wrote it. ``resumed``: something was said in
    this session already, so that a greeting is out of place. ``memory`` is what the lost model had remembered, and
    ``open_turn`` the turn of the answer that it was giving, which goes on (``ModelInfo.memory_bytes``).
    """

    session_id: str
    incarnation: int
    epoch: int
    instructions: str | None = None
    voice: str | None = None
    ref_audio: str | None = None
    temperature: float | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    tools: tuple[dict[str, object], ...] = ()
    overlap_policy: str = "listen_only"
    turn_detection: dict[str, object] | None = None
    extra_body: dict[str, object] = {}
    history: tuple[HistoryItem, ...] = ()
    resumed: bool = False
    memory: bytes = b""
    open_turn: int | None = None


class ReconfigureModel(msgspec.Struct, frozen=True, kw_only=True):
    """The session's settings changed; they hold from the next turn on. Fields as in ``OpenModel``."""

    instructions: str | None = None
    voice: str | None = None
    temperature: float | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    tools: tuple[dict[str, object], ...] = ()
    overlap_policy: str = "listen_only"
    turn_detection: dict[str, object] | None = None
    extra_body: dict[str, object] = {}


class FeedAudio(msgspec.Struct, frozen=True, kw_only=True):
    """Caller audio, in arrival order. ``pcm`` is mono float32 little-endian at the model's ``input_rate_hz``.

    ``end_ms`` is the session's input clock after this audio: cumulative milliseconds since the session opened.
    ``is_speech`` is the client's own verdict, ``None`` when it gave none. ``force_listen`` forbids to end a turn or to
    start speaking because of this audio: the client wants to commit by itself. ``frames`` are the pictures of a camera
    that came with it, JPEG or PNG files, for models whose card says ``takes_frames``.

    ``place`` is the host's own name for where this piece lies in the session's log, for models that name it in a
    ``Recipe``.
    """

    epoch: int
    pcm: bytes
    end_ms: int
    is_speech: bool | None = None
    force_listen: bool = False
    frames: tuple[bytes, ...] = ()
    place: str = ""


class EndTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The client committed its turn: what was fed is all of it. ``item_id`` names the user item.

    The model answers with ``ModelHeardTurn(item_id=…)`` if it transcribes, then speaks or listens by its own decision;
    with ``respond=False`` it must not start a response because of this commit. ``audio_start_ms`` is where the turn
    begins on the input clock, if somebody detected it: what was fed from before it is not part of it.
    """

    epoch: int
    item_id: str
    respond: bool
    audio_start_ms: int | None = None


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """Answer now, from ``history`` (text turns, explicit ``response.create``). The response is already announced.

    What is ``None`` is as the session has it; an empty tuple of ``tools`` means none for this answer.
    """

    epoch: int
    response_id: str
    history: tuple[HistoryItem, ...]
    instructions: str | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    temperature: float | None = None
    max_output_tokens: int | None = None
    voice: str | None = None
    tools: tuple[dict[str, object], ...] | None = None
    tool_choice: str | dict[str, object] | None = None


class ContinueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Give the answer of ``recipe`` once more, from its beginning: the worker that was giving it is gone.

    Sent right after ``OpenModel``, to models whose card says ``can_rebuild``; the answer comes before any other. Its
    signals are the same as before: the same samples and words, calls under the same ids, numbered ``turn`` (turns after
    it go on from there), and ``ModelSpoke`` with the same recipe. What the caller has had of it, ``said_samples`` at
    the answer's rate and ``said_chars`` of its words, is checked and swallowed by the host, and comes at once; the
    rest comes at the model's own pace, the last of what was said having been sent ``idle_ms`` ago. ``sound`` is the
    caller audio that the recipe names, as in ``FeedAudio``; it is shorter where the log has dropped some. What cannot
    be given again is reported as ``ModelFailed``.
    """

    epoch: int
    turn: int
    recipe: Recipe
    response_id: str | None = None
    said_samples: int = 0
    said_chars: int = 0
    idle_ms: int = 0
    sound: bytes = b""


class Interrupt(msgspec.Struct, frozen=True, kw_only=True):
    """Stop whatever is being generated, at once; the new ``epoch`` holds from here on.

    ``heard_text`` is what the caller heard of the interrupted answer, and ``unheard_ms`` how much of its sound the
    caller has not heard, for the model's own memory.
    """

    epoch: int
    response_id: str | None = None
    heard_text: str | None = None
    unheard_ms: int = 0


class ResetInput(msgspec.Struct, frozen=True, kw_only=True):
    """Forget caller audio that no turn holds yet (the client cleared its input buffer)."""

    epoch: int


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The client's answer to a function call. The model may continue its turn by itself.

    With ``respond=False`` it only remembers it: the client asks for the next answer, or an interruption has overtaken
    the call.
    """

    epoch: int
    call_id: str
    output: str
    respond: bool = True


class CloseModel(msgspec.Struct, frozen=True, kw_only=True):
    """Free everything; nothing may be signalled afterwards. The session is over, or it ``goes_on`` in another process:

    what a server elsewhere keeps for it stays there.
    """

    goes_on: bool = False


Request = (
    OpenModel
    | ReconfigureModel
    | FeedAudio
    | EndTurn
    | Generate
    | ContinueAnswer
    | Interrupt
    | ResetInput
    | ToolOutput
    | CloseModel
)
