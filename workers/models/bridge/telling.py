"""What a session asks for on its way to the server: numbered, told once, and noted in the standing."""

from __future__ import annotations

import msgspec

from duplex_es.model import EndTurn, FeedAudio, Generate, HistoryItem, ModelInfo, ToolOutput
from duplex_es.protocol import AcknowledgePlayback, CancelResponse, CommitTurn, CreateItem, Heartbeat, given
from duplex_es.protocol.audio import PCM16

from ..pcm import ms_in
from .hearing import Hearing, heard_ms
from .outbox import Outbox
from .past import output_item
from .presets import Preset
from .standing import Standing
from .wording import append, asking, untold

MOST_FRAMES = 2
"""So many pictures go with one append; of those that came without sound the newest wait for it."""


class Telling:
    """Writes into the outbox. What the standing says was told already is left out.

    ``fed_before_ms``: caller audio up to there the server had from another worker. ``beats`` are the heartbeats that
    are not answered yet, oldest first; true for one whose answer ends an interruption.
    """

    def __init__(self, hearing: Hearing, outbox: Outbox, info: ModelInfo, preset: Preset) -> None:
        self._hearing = hearing
        self._outbox = outbox
        self._info = info
        self._preset = preset
        self._frames: tuple[bytes, ...] = ()
        self.fed_before_ms = 0
        self.beats: list[bool] = []

    @property
    def standing(self) -> Standing:
        """Where the session stands."""
        return self._hearing.standing

    def adopt_epoch(self, epoch: int) -> None:
        """Take the epoch of a request; it never goes down."""
        self.standing.epoch = max(self.standing.epoch, epoch)

    def feed(self, request: FeedAudio) -> int:
        """Caller audio. Returns how many milliseconds of older audio had to be dropped for it."""
        self.adopt_epoch(request.epoch)
        self._frames = (*self._frames, *request.frames)[-MOST_FRAMES:]
        at = self.standing
        if request.end_ms <= self.fed_before_ms or not request.pcm:
            return 0  # A successor is told of audio that the server has heard already.
        if at.offset_ms is None:
            at.offset_ms = request.end_ms - ms_in(len(request.pcm) // 4, self._info.input_rate_hz)
        at.sent.audio_ms = request.end_ms
        command = append(
            request.pcm,
            self._preset.encoding,
            is_speech=request.is_speech,
            force_listen=request.force_listen,
            event_id=at.sent.event_id("append"),
            frames=self._frames,
        )
        self._frames = ()
        sample_bytes = 2 if self._preset.encoding == PCM16 else 4
        return ms_in(self._outbox.put(command) // sample_bytes, self._info.input_rate_hz)

    def end_turn(self, request: EndTurn) -> None:
        """The caller's turn is over."""
        self.adopt_epoch(request.epoch)
        at = self.standing
        if request.item_id in at.sent.turns:
            return
        self._release_outputs()
        at.sent.note_turn(request.item_id)
        at.commits.append(request.item_id)
        at.unwanted = not request.respond
        event_id = at.sent.event_id("commit")
        self._outbox.put(CommitTurn(final=True, response_create=request.respond, event_id=event_id))

    def generate(self, request: Generate) -> None:
        """An answer is wanted, and what was typed before it is told."""
        self.adopt_epoch(request.epoch)
        at = self.standing
        if request.response_id in at.sent.asked:
            return
        self._release_outputs()
        for item in untold(request.history, at.told_item):
            self._outbox.put(_named(item, at.sent.event_id(f"item {given(item.item.id, '')}")))
        if request.history:
            at.told_item = request.history[-1].item_id
            self._hearing.past.replace(request.history)
        at.sent.note_asked(request.response_id)
        at.asked.append(request.response_id)
        at.unwanted = False
        self._outbox.put(asking(request, at.sent.event_id("ask")))

    def tool_output(self, request: ToolOutput) -> None:
        """The output of a call; one that wants no answer waits for the next request."""
        self.adopt_epoch(request.epoch)
        self._hearing.past.add(
            HistoryItem(item_id=request.call_id, role="tool", text=request.output, call_id=request.call_id)
        )
        if request.respond:
            self._send_output(request.call_id, request.output)
        else:
            # Told now, the server might go on by itself.
            self.standing.held_outputs = [*self.standing.held_outputs, (request.call_id, request.output)]

    def _release_outputs(self) -> None:
        held, self.standing.held_outputs = self.standing.held_outputs, []
        for call_id, output in held:
            self._send_output(call_id, output)

    def _send_output(self, call_id: str, output: str) -> None:
        self._outbox.put(_named(output_item(call_id, output), self.standing.sent.event_id(f"tool {call_id}")))

    def cut(self, epoch: int, heard_text: str | None) -> None:
        """Nothing that the server was asked for or began before is to be heard any more."""
        at, hearing = self.standing, self._hearing
        if epoch <= at.epoch and epoch <= at.sent.epoch:
            return
        at.epoch = max(at.epoch, epoch)
        at.sent.epoch = at.epoch
        at.asked = []
        for answer in at.answers.values():
            answer.stale = True
        hearing.forget_held()
        hearing.past.heard_only(at.last_answer or "", heard_text)
        if heard_text is not None and at.last_answer is not None and hearing.duration_ms:
            played_ms = heard_ms(heard_text, hearing.marks, hearing.duration_ms)
            self._outbox.put(
                AcknowledgePlayback(
                    response_id=at.last_answer,
                    played_ms=played_ms,
                    committed_ms=played_ms,
                    truncate=True,
                    event_id=at.sent.event_id("ack"),
                )
            )
        self._outbox.put(CancelResponse(event_id=at.sent.event_id("cut")))
        at.cutting += 1
        self.barrier()

    def barrier(self) -> None:
        """The answer to this heartbeat comes after everything that the server had begun before it heard of the cut."""
        self.beat(is_barrier=True)

    def beat(self, *, is_barrier: bool) -> None:
        """Keep the session alive, or learn when the server has heard of everything up to here."""
        self.beats.append(is_barrier)
        self._outbox.put(Heartbeat(event_id=self.standing.sent.event_id("beat")))


def _named(item: CreateItem, event_id: str) -> CreateItem:
    return msgspec.structs.replace(item, event_id=event_id)
