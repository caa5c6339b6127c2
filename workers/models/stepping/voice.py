"""Frames to answers: where one begins, where it ends, what is said in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from duplex_es.model import ModelFinished, ModelListened, ModelProducedAudio, ModelSpoke, Signal


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model takes turns. ``silent_frames`` without words or sound end an answer; ``None``: it never ends.

    ``announces``: each frame in which the model only listens is told as a decision of its own.
    """

    silent_frames: int | None = None
    announces: bool = False


class Voice:
    """One session's answers. ``open_turn`` is the turn of an answer that goes on from another process.

    An endless model is in one answer from its first sound on; another's answer begins with the first frame in which it
    speaks and ends once it has been silent for long enough. Sound between answers is not passed on.
    """

    def __init__(self, manner: Manner, *, epoch: int, open_turn: int | None = None) -> None:
        self._manner = manner
        self._epoch = epoch
        self._turn = 0 if open_turn is None else open_turn
        self._is_open = open_turn is not None
        self._silent = 0

    @property
    def epoch(self) -> int:
        """What signals carry now."""
        return self._epoch

    def adopt(self, epoch: int) -> None:
        """Take the epoch of a request; it never goes down. An answer of an older one is over, silently."""
        if epoch > self._epoch:
            self._epoch = epoch
            self._end()

    def take(self, pcm: bytes, text: str, *, speaks: bool) -> Iterator[Signal]:
        """The signals of the next frame, in order."""
        if not self._is_open:
            if not (pcm and (speaks or self._manner.silent_frames is None)):
                if self._manner.announces:
                    yield ModelListened(epoch=self._epoch)
                return
            self._is_open = True
            yield ModelSpoke(epoch=self._epoch, turn=self._turn)
        if pcm:
            yield ModelProducedAudio(epoch=self._epoch, turn=self._turn, pcm=pcm, text=text)
        self._silent = 0 if speaks else self._silent + 1
        if self._manner.silent_frames is not None and self._silent >= self._manner.silent_frames:
            yield self._finished()

    def finish(self) -> Iterator[Signal]:
        """End the answer that is open, as complete."""
        if self._is_open:
            yield self._finished()

    def _finished(self) -> ModelFinished:
        turn = self._turn
        self._end()
        return ModelFinished(epoch=self._epoch, turn=turn)

    def _end(self) -> None:
        self._turn += self._is_open
        self._is_open, self._silent = False, 0
