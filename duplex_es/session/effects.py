"""What a session asks of its host. Performed in order, and only after the facts behind them are in the log."""

from __future__ import annotations

import msgspec

from ..model import ContinueAnswer, EndTurn, Generate, Interrupt, OpenModel, ReconfigureModel, ResetInput, ToolOutput
from ..protocol import RefuseCommand


class AskModel(msgspec.Struct, frozen=True):
    """Hand ``request`` to the session's model."""

    request: OpenModel | ReconfigureModel | EndTurn | Generate | ContinueAnswer | Interrupt | ResetInput | ToolOutput


class FeedAppended(msgspec.Struct, frozen=True, kw_only=True):
    """Feed the audio of the append being handled to the model, converted to its rate.

    With ``part`` it is the audio of that content part of the item being created.
    """

    epoch: int
    end_ms: int
    is_speech: bool | None = None
    force_listen: bool = False
    part: int | None = None


class AnswerOpening(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the gateway how the opening went: with the session's public object, or with ``refusal``, which ends it."""

    refusal: RefuseCommand | None = None


class HearAgain(msgspec.Struct, frozen=True):
    """Feed the model the sound of an earlier turn from the log, then hand it ``request``, which ended that turn."""

    request: EndTurn


class RestartModel(msgspec.Struct, frozen=True):
    """Close the session's model and open it anew: it is giving an answer that is no longer wanted."""

    request: OpenModel


class EndSession(msgspec.Struct, frozen=True):
    """Close the model and end the session in the log."""

    reason: str


Effect = AskModel | FeedAppended | HearAgain | AnswerOpening | RestartModel | EndSession
