"""What a server's frames come to as signals. Knows neither sockets nor clocks: same frames, same signals."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from duplex_es import protocol as wire
from duplex_es.model import (
    HistoryItem,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInfo,
    ModelInterrupted,
    ModelListened,
    ModelMeasured,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Signal,
    StageMetrics,
)
from duplex_es.protocol.audio import PCM_F32LE
from duplex_es.protocol.frames import (
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
)
from duplex_es.protocol.objects import Item, given

from ..pcm import floats_of, int16_bytes
from ..stages import read_stages
from .line import Heard
from .past import Past
from .standing import Answer, Standing, Utterance, read_event_id

WITHOUT_OUTPUT = "model_turn_completed_without_output"
QUIET_KINDS = ("cut", "ack", "beat", "append", "clear")
"""Commands whose refusal is nobody's news: they asked for what was so already, or come by the dozen."""
QUIET_CODES = ("playback_item_mismatch", "playback_item_not_found", "playback_ack_too_late", "invalid_event_ack")

log = logging.getLogger(__name__)


class Hearing:
    """One session's ear towards its server. Moves ``standing`` along with what it hears.

    Audio waits for the words that follow it: while ``holds`` is true, the last frame is not signalled yet.
    ``is_to_be_cancelled``: the server has begun an answer that nobody wanted.
    """

    def __init__(self, standing: Standing, info: ModelInfo, past: Past) -> None:
        self.standing = standing
        self.past = past
        self.marks: list[tuple[int, int]] = []
        self.duration_ms = 0
        self.is_to_be_cancelled = False
        self._info = info
        self._held: wire.ResponseOutputAudioDelta | None = None
        self._fault: tuple[str, str] | None = None
        self._measured: dict[str, dict[str, StageMetrics]] = {}

    @property
    def holds(self) -> bool:
        """Whether audio waits for its words."""
        return self._held is not None

    def forget_held(self) -> None:
        """An interruption: what waits is not to be heard any more."""
        self._held = None

    def flush(self) -> list[Signal]:
        """The audio that waits, without words."""
        held, self._held = self._held, None
        return [] if held is None else self._spoken(held, "")

    def take(self, frame: Heard) -> list[Signal]:
        """What one frame comes to; all but the last of the signals may come twice and say the same."""
        rule = _RULES.get(type(frame))
        return [] if rule is None else rule(self, frame)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _created(self, frame: wire.ResponseCreated) -> list[Signal]:
        response_id = given(frame.response.id, given(frame.response_id, ""))
        at = self.standing
        stale = at.cutting > 0
        asked = at.asked.pop(0) if at.asked and not stale else None
        if at.unwanted and asked is None and not stale:
            at.unwanted, self.is_to_be_cancelled, stale = False, True, True
        at.answers[response_id] = Answer(epoch=at.epoch, response_id=asked, stale=stale)
        return []

    def _answer(self, response_id: str) -> Answer | None:
        """The answer that something belongs to, unless nothing is to be heard of it."""
        answer = self.standing.answers.get(response_id)
        if answer is None or answer.stale or answer.epoch < self.standing.epoch:
            return None
        return answer

    def _begin(self, response_id: str, answer: Answer) -> tuple[int, list[Signal]]:
        """The number of the answer, and the signal that begins it."""
        at = self.standing
        if answer.turn is None:
            answer.turn, at.turns = at.turns, at.turns + 1
            at.last_answer = response_id
            self.marks, self.duration_ms = [], 0
            return answer.turn, [ModelSpoke(epoch=answer.epoch, turn=answer.turn, response_id=answer.response_id)]
        return answer.turn, []

    def _note_stages(self, response_id: str, told: object) -> None:
        """What the server tells of its stages is of the answer so far: the newest of each holds."""
        if isinstance(told, dict) and (stages := read_stages(told.get("stage_metrics"))):
            self._measured[response_id] = {**self._measured.get(response_id, {}), **stages}

    def _stages(self, response_id: str, frame: wire.ResponseDone) -> dict[str, StageMetrics]:
        """What is known of the stages of an answer at its end; forgotten with this."""
        self._note_stages(response_id, given(frame.response.metadata, {}).get("vllm_omni"))
        return self._measured.pop(response_id, {})

    def _audio(self, frame: wire.ResponseOutputAudioDelta) -> list[Signal]:
        if frame.metadata is not UNSET:
            self._note_stages(frame.response_id, frame.metadata.vllm_omni)
        if self._answer(frame.response_id) is not None and frame.delta:
            self._held = frame
        return []

    def _words(self, frame: wire.ResponseOutputAudioTranscriptDelta) -> list[Signal]:
        held, self._held = self._held, None
        answer = self._answer(frame.response_id)
        if answer is None:
            return []
        if held is None or held.response_id != frame.response_id:
            answer.untold += frame.delta
            return []
        return self._spoken(held, frame.delta)

    def _spoken(self, frame: wire.ResponseOutputAudioDelta, text: str) -> list[Signal]:
        answer = self._answer(frame.response_id)
        if answer is None:
            return []
        turn, begun = self._begin(frame.response_id, answer)
        if frame.metadata is not UNSET:
            self.duration_ms = given(frame.metadata.audio_duration_ms, self.duration_ms)
            marks = given(frame.metadata.audio_text_marks, [])
            self.marks = [(mark.text_chars, mark.audio_end_ms) for mark in marks] or self.marks
        text, answer.untold = answer.untold + text, ""
        self.past.speak(text)
        rate_hz = given(frame.sample_rate_hz, self._info.output_rate_hz)
        told_rate = None if rate_hz == self._info.output_rate_hz else rate_hz
        pcm = _pcm16(frame.delta, given(frame.format, ""))
        return [
            *begun,
            ModelProducedAudio(epoch=answer.epoch, turn=turn, pcm=pcm, text=text, rate_hz=told_rate),
        ]

    def _written(self, frame: wire.ResponseOutputTextDelta) -> list[Signal]:
        answer = self._answer(frame.response_id)
        if answer is None or not frame.delta:
            return []
        turn, begun = self._begin(frame.response_id, answer)
        self.past.speak(frame.delta)
        return [*begun, ModelProducedText(epoch=answer.epoch, turn=turn, text=frame.delta)]

    def _listens(self, frame: wire.ResponseListen) -> list[Signal]:
        reason = (given(frame.response.metadata, {})).get("reason")
        response_id = given(frame.response_id, None)
        local = None
        if response_id is not None:
            answer = self._answer(response_id)
            if answer is None:
                return []
            answer.listened, local = True, answer.response_id
        elif self.standing.cutting:
            return []
        self.standing.unwanted = False
        said = reason if isinstance(reason, str) and reason else "model_listen"
        return [ModelListened(epoch=self.standing.epoch, reason=said, response_id=local)]

    def _done(self, frame: wire.ResponseDone) -> list[Signal]:
        response_id = given(frame.response.id, given(frame.response_id, ""))
        answer = self._answer(response_id)
        self.standing.answers.pop(response_id, None)
        stages = self._stages(response_id, frame)
        if answer is None:
            return []
        status = given(frame.response.status, "completed")
        self.past.end_answer(response_id)
        if status == "failed":
            return [*_measured(answer, stages), *self._failed(answer, frame)]
        if status == "cancelled":
            return [*_measured(answer, stages), *self._cut_itself(answer, frame)]
        if answer.turn is None and (answer.listened or answer.response_id is None):
            return []
        turn, begun = self._begin(response_id, answer)
        rest: list[Signal] = []
        if answer.untold:
            rest.append(ModelProducedText(epoch=answer.epoch, turn=turn, text=answer.untold))
        usage = frame.response.usage
        counts: dict[str, int | None] = {}
        if isinstance(usage, wire.Usage):
            cached = given(usage.input_token_details, {}).get("cached_tokens")
            counts = {
                "input_tokens": given(usage.input_tokens, None),
                "output_tokens": given(usage.output_tokens, None),
                "cached_tokens": cached if isinstance(cached, int) else None,
            }
        ended = ModelFinished(epoch=answer.epoch, turn=turn, **counts)
        return [*begun, *rest, *_measured(answer, stages), ended]

    def _failed(self, answer: Answer, frame: wire.ResponseDone) -> list[Signal]:
        fault, self._fault = self._fault, None
        details = frame.response.status_details
        reason = given(details.reason, "") if isinstance(details, wire.StatusDetails) else ""
        code, message = fault or (
            reason or "response_error",
            f"the model's server ended the answer: {reason or 'failed'}",
        )
        return [ModelFailed(epoch=answer.epoch, code=code, message=message)]

    def _cut_itself(self, answer: Answer, frame: wire.ResponseDone) -> list[Signal]:
        """The server ended it, and nobody here asked for that."""
        details = frame.response.status_details
        reason = given(details.reason, "") if isinstance(details, wire.StatusDetails) else ""
        if answer.turn is None:
            if answer.response_id is None:
                return []
            message = f"the model's server cancelled the answer: {reason or 'cancelled'}"
            return [ModelFailed(epoch=answer.epoch, code="response_error", message=message)]
        self.standing.epoch = answer.epoch + 1
        return [ModelInterrupted(epoch=answer.epoch, turn=answer.turn, reason=reason or "barge_in")]

    def _item_done(self, frame: wire.ResponseOutputItemDone) -> list[Signal]:
        if frame.item.type != "function_call":
            return []
        answer = self._answer(frame.response_id)
        if answer is None:
            return []
        answer.listened = True  # The call is what it came to.
        return self._called(frame.item, self._turn_of_call(answer))

    def _turn_of_call(self, answer: Answer) -> int:
        """A call belongs to the answer that is being spoken; without one it is a turn of its own."""
        speaking = (one.turn for one in self.standing.answers.values() if one.turn is not None and not one.stale)
        turn = answer.turn if answer.turn is not None else next(speaking, None)
        if turn is None:
            turn, self.standing.turns = self.standing.turns, self.standing.turns + 1
        return turn

    def _called(self, item: Item, turn: int) -> list[Signal]:
        call_id, name = given(item.call_id, None), given(item.name, None)
        arguments = given(item.arguments, "{}")
        self.past.add(HistoryItem(item_id=call_id or "", role="assistant", text=arguments, call_id=call_id, name=name))
        return [
            ModelCalledFunction(
                epoch=self.standing.epoch, turn=turn, call_id=call_id or None, name=name or None, arguments=arguments
            )
        ]

    def _malformed_call(self, frame: wire.DuplexFunctionCallDone) -> list[Signal]:
        if self.standing.cutting:
            return []
        said = frame.event
        item = Item(
            call_id=_text(said.get("call_id")),
            name=_text(said.get("name")),
            arguments=_text(said.get("arguments")) or "{}",
        )
        turn, self.standing.turns = self.standing.turns, self.standing.turns + 1
        return self._called(item, turn)

    def _passed_on(self, frame: wire.ResponseMessage) -> list[Signal]:
        answer = self._answer(given(frame.response_id, ""))
        turn = answer.turn if answer is not None and answer.turn is not None else self.standing.turns
        return [ModelPassedOn(epoch=self.standing.epoch, turn=turn, message=frame.message)]

    # -- the caller --------------------------------------------------------------------------------------------------

    def _speech(self, frame: wire.InputAudioBufferSpeechStarted) -> list[Signal]:
        self.standing.utterances.setdefault(frame.item_id, Utterance()).start_ms = frame.audio_start_ms
        self.standing.unwanted = False
        if not self._info.ends_turns:
            return []
        return [ModelHeardSpeech(epoch=self.standing.epoch, start_ms=self._here_ms(frame.audio_start_ms))]

    def _speech_end(self, frame: wire.InputAudioBufferSpeechStopped) -> list[Signal]:
        self.standing.utterances.setdefault(frame.item_id, Utterance()).end_ms = frame.audio_end_ms
        if not self._info.ends_turns:
            return []
        return [ModelHeardSpeechEnd(epoch=self.standing.epoch, end_ms=self._here_ms(frame.audio_end_ms))]

    def _here_ms(self, there_ms: int) -> int:
        return max(0, there_ms + (self.standing.offset_ms or 0))

    def _committed(self, frame: wire.InputAudioBufferCommitted) -> list[Signal]:
        utterance = self.standing.utterances.setdefault(frame.item_id, Utterance())
        utterance.committed = True
        if self.standing.commits:
            utterance.item_id = self.standing.commits.pop(0)
        elif not self._info.ends_turns:
            del self.standing.utterances[frame.item_id]
            return []
        event = frame.event
        if event is not UNSET and utterance.item_id is not None and (event.empty is True or event.is_speech is False):
            return self._understood(frame.item_id, "")
        return []

    def _understood(self, item_id: str, transcript: str, failed: str | None = None) -> list[Signal]:
        utterance = self.standing.utterances.get(item_id)
        if utterance is None or not utterance.committed:
            return []
        del self.standing.utterances[item_id]
        spoken_ms = (utterance.end_ms or 0) - (utterance.start_ms or 0)
        self.past.add(HistoryItem(item_id=utterance.item_id or item_id, role="user", text=transcript, spoken=True))
        heard = ModelHeardTurn(
            epoch=self.standing.epoch,
            transcript=transcript,
            item_id=utterance.item_id,
            audio_ms=max(0, spoken_ms),
            failed=failed,
        )
        return [heard]

    def give_up_words(self, item_id: str) -> list[Signal]:
        """The server says nothing of what it understood: then it is nothing."""
        return self._understood(item_id, "")

    def unheard_commits(self) -> list[Signal]:
        """Turns that the server will say nothing about any more, each heard as nothing."""
        named = [one.item_id for one in self.standing.utterances.values() if one.committed and one.item_id]
        lost = [*named, *self.standing.commits]
        self.standing.commits, self.standing.utterances = [], {}
        return [ModelHeardTurn(epoch=self.standing.epoch, transcript="", item_id=item_id) for item_id in lost]

    def _user_item(self, frame: wire.ConversationItemDone) -> list[Signal]:
        if frame.item.role != "user" or not isinstance(frame.item.id, str):
            return []
        parts = given(frame.item.content, [])
        return self._understood(frame.item.id, " ".join(said for part in parts if (said := given(part.transcript, ""))))

    def _transcribed(self, frame: wire.ConversationItemInputAudioTranscriptionCompleted) -> list[Signal]:
        return self._understood(frame.item_id, frame.transcript)

    def _not_transcribed(self, frame: ConversationItemInputAudioTranscriptionFailed) -> list[Signal]:
        return self._understood(frame.item_id, "", frame.error.message)

    def _grows(self, frame: ConversationItemInputAudioTranscriptionDelta) -> list[Signal]:
        utterance = self.standing.utterances.get(frame.item_id)
        if utterance is None:
            return []
        return [ModelHeardWords(epoch=self.standing.epoch, text=frame.delta, item_id=utterance.item_id)]

    # -- faults ------------------------------------------------------------------------------------------------------

    def _beat(self, frame: wire.SessionHeartbeatAck) -> list[Signal]:
        return []

    def _error(self, frame: wire.Error) -> list[Signal]:
        code, message = frame.error.code, frame.error.message
        said = read_event_id(given(frame.error.event_id, ""))
        if said is not None:
            return self._refused(said, code, message)
        if code in QUIET_CODES:
            return []
        if any(not answer.stale for answer in self.standing.answers.values()):
            self._fault = (code, message)  # The answer that it ends says so.
            return []
        return [ModelFailed(epoch=self.standing.epoch, code=code, message=message)]

    def _refused(self, said: tuple[str, int, int, str, str], code: str, message: str) -> list[Signal]:
        kind, _, _, turn, asked = said
        at = self.standing
        if kind in QUIET_KINDS:
            if kind != "cut":
                log.warning("the model's server refused %s: %s %s", kind, code, message)
            return []
        if kind == "commit":
            if turn not in at.commits:
                return []
            at.commits.remove(turn)
            heard = ModelHeardTurn(epoch=at.epoch, transcript="", item_id=turn)
            return [heard, ModelListened(epoch=at.epoch, reason="silence_or_noise")]
        if kind == "ask":
            if asked not in at.asked:
                return []
            at.asked.remove(asked)
            live = next((answer for answer in at.answers.values() if not answer.stale and not answer.response_id), None)
            if code == "response_already_active" and live is not None and live.turn is None:
                live.response_id = asked  # The server was about to give it by itself.
                return []
        return [ModelFailed(epoch=at.epoch, code=code, message=message)]


def _measured(answer: Answer, stages: dict[str, StageMetrics]) -> list[Signal]:
    """What an answer's stages did, if it was begun and they told."""
    if not stages or answer.turn is None:
        return []
    return [ModelMeasured(epoch=answer.epoch, turn=answer.turn, stages=stages)]


def _pcm16(data: bytes, encoding: str) -> bytes:
    if encoding == PCM_F32LE:
        return int16_bytes(floats_of(data))
    return data[: len(data) - len(data) % 2]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None if value is None else msgspec.json.encode(value).decode()


def heard_ms(heard_text: str, marks: list[tuple[int, int]], duration_ms: int) -> int:
    """Where in an answer's sound ``heard_text`` ends: between two marks by its share of the characters."""
    chars = [0, *(mark[0] for mark in marks)]
    ends = [0, *(mark[1] for mark in marks)]
    if len(heard_text) >= chars[-1]:
        return duration_ms
    return int(np.interp(len(heard_text), chars, ends))


Rule = Callable[[Hearing, Any], list[Signal]]

_RULES: dict[type, Rule] = {
    wire.ResponseCreated: Hearing._created,
    wire.ResponseOutputAudioDelta: Hearing._audio,
    wire.ResponseOutputAudioTranscriptDelta: Hearing._words,
    wire.ResponseOutputTextDelta: Hearing._written,
    wire.ResponseListen: Hearing._listens,
    wire.ResponseOutputItemDone: Hearing._item_done,
    wire.ResponseDone: Hearing._done,
    wire.DuplexFunctionCallDone: Hearing._malformed_call,
    wire.ResponseMessage: Hearing._passed_on,
    wire.InputAudioBufferSpeechStarted: Hearing._speech,
    wire.InputAudioBufferSpeechStopped: Hearing._speech_end,
    wire.InputAudioBufferCommitted: Hearing._committed,
    wire.ConversationItemDone: Hearing._user_item,
    wire.ConversationItemInputAudioTranscriptionCompleted: Hearing._transcribed,
    ConversationItemInputAudioTranscriptionDelta: Hearing._grows,
    ConversationItemInputAudioTranscriptionFailed: Hearing._not_transcribed,
    wire.Error: Hearing._error,
}
"""Frame → what it comes to; all others come to nothing."""
