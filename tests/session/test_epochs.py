"""Session and model keep the same epoch whoever interrupts whom, and in whatever order they hear of it.

The model here is the smallest one that keeps the contract; its signals arrive late, as they do in life.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_es.model import (
    Generate,
    ModelFinished,
    ModelInterrupted,
    ModelListened,
    ModelProducedAudio,
    ModelSpoke,
    Request,
    Signal,
)
from duplex_es.protocol import CancelInput, CancelResponse, ClearOutput, Command, CreateResponse
from duplex_es.session.effects import AskModel
from duplex_es.session.inputs import Input
from duplex_es.session.state import Session
from duplex_es.session.step import step
from tests.session.cast import eager, typed
from tests.support.ordering import ResponseOrderChecker

pytestmark = pytest.mark.unit

COMMANDS: dict[str, Command] = {
    "cancel": CancelResponse(),
    "barge in": CancelInput(),
    "clear output": ClearOutput(),
    "create": CreateResponse(),
    "type": typed("hello"),
}
MODEL = ("begin", "begin", "say", "say", "finish", "interrupt", "listen")
MOVES = (*COMMANDS, *MODEL, "hear", "hear", "hear", "hear")


class SmallModel:
    """Numbers its turns, adopts newer epochs, counts its own up when it cuts itself, and drops what is older."""

    def __init__(self) -> None:
        self.epoch = 0
        self.turns = 0
        self.speaking = False
        self.asked: deque[str] = deque()
        self.signals: deque[Signal] = deque()

    def perform(self, request: Request) -> None:
        epoch = getattr(request, "epoch", self.epoch)
        if epoch > self.epoch:
            self.epoch, self.speaking = epoch, False
            self.asked.clear()
        if isinstance(request, Generate):
            self.asked.append(request.response_id)

    def do(self, move: str) -> None:
        turn = self.turns - 1
        match move:
            case "begin" if not self.speaking:
                named = self.asked.popleft() if self.asked else None
                self.signals.append(ModelSpoke(epoch=self.epoch, turn=self.turns, response_id=named))
                self.turns, self.speaking = self.turns + 1, True
            case "say" if self.speaking:
                self.signals.append(ModelProducedAudio(epoch=self.epoch, turn=turn, pcm=bytes(480), text="la "))
            case "finish" if self.speaking:
                self.signals.append(ModelFinished(epoch=self.epoch, turn=turn))
                self.speaking = False
            case "interrupt" if self.speaking:
                self.signals.append(ModelInterrupted(epoch=self.epoch, turn=turn))
                self.epoch, self.speaking = self.epoch + 1, False
                self.asked.clear()
            case "listen" if not self.speaking:
                named = self.asked.popleft() if self.asked else None
                self.signals.append(ModelListened(epoch=self.epoch, response_id=named))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(MOVES), max_size=60))
def test_model_and_session_never_lose_each_other(moves: list[str]) -> None:
    session, model, order = eager().session, SmallModel(), ResponseOrderChecker()

    def take(said: Input, session: Session) -> Session:
        decision = step(session, said, 0)
        for frame in decision.frames:
            order.take(frame)
        for effect in decision.effects:
            if isinstance(effect, AskModel):
                model.perform(effect.request)
        return decision.session

    for move in moves:
        if move == "hear":
            session = take(model.signals.popleft(), session) if model.signals else session
        elif move in COMMANDS:
            session = take(COMMANDS[move], session)
        else:
            model.do(move)
    while model.signals:
        session = take(model.signals.popleft(), session)
    assert session.epoch == model.epoch
    live, begun = session.response, session.begun
    turn = begun.turn if begun is not None else live.turn if live is not None else None
    assert turn == model.turns - 1 or not model.speaking, "the model speaks unheard"
    if live is not None and live.turn is None:
        assert live.id in model.asked or begun is not None, "a response was announced that nobody will give"
    for move in ("finish", "begin", "say", "finish"):
        model.do(move)
    while model.signals:
        session = take(model.signals.popleft(), session)
    assert session.response is None
    assert order.statuses()[-1] == "completed", "what the model says next is heard"
    order.ended()
