"""Function calls: which are open, and what an output for one that is not comes to.

No output is ever fatal: one that fits nothing is refused by its code, and one that comes too late is kept for the
model's memory unless the client wants it refused. Source: docs/reference/realtime-api.md, "Function calls".
"""

from __future__ import annotations

from ..model import ToolOutput
from ..protocol import CreateItem
from ..protocol import Item as WireItem
from .effects import AskModel, Effect
from .events import CommandRejected, EpochAdvanced, Fact, FunctionCalled, ItemCreated, ItemDeleted, ResponseFinished
from .refusals import refuse
from .state import Call, Session, replace

KEPT_CALLS = 512
"""So many calls are known; of those beyond, the oldest that are not open are forgotten."""
STALE_OUTPUTS = "stale_function_outputs"
"""The key of ``extra_body`` that says what becomes of an output whose call an interruption has overtaken."""


def known_call(session: Session, call_id: str | None) -> Call | None:
    """The newest call of this id."""
    return next((call for call in reversed(session.calls) if call.call_id == call_id), None)


def refused_output(session: Session, command: CreateItem, wire: WireItem) -> tuple[CommandRejected] | None:
    """Why an output is not taken, or ``None``: of a known call that is not answered yet, a string."""
    code, param = "invalid_function_call_output", "item.call_id"
    call = known_call(session, wire.call_id) if isinstance(wire.call_id, str) else None
    if call is None:
        return refuse(command, code, "item.call_id must be the call_id of a function_call item.", param)
    if not isinstance(wire.output, str):
        return refuse(command, code, "item.output must be a string.", "item.output")
    match call.state:
        case "completed":
            return refuse(command, code, f"Call {call.call_id!r} was answered already.", "item.output")
        case "cancelled":
            return refuse(command, code, f"Call {call.call_id!r} was deleted from the conversation.", param)
        case "stale" if session.settings.extra_body.get(STALE_OUTPUTS) == "refuse":
            message = f"Call {call.call_id!r} was overtaken by an interruption; its output is not taken."
            return refuse(command, "stale_function_call_output", message, param)
    return None


# -- folding -------------------------------------------------------------------------------------------------------


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact as far as it is about a call. Total.

    An interruption makes every open call stale: the model has given it up.
    """
    match fact:
        case FunctionCalled(call_id=call_id, item_id=item_id):
            return _with_call(session, Call(call_id, item_id)), ()
        case ItemCreated(item=item) if item.type == "function_call" and item.call_id:
            known = known_call(session, item.call_id) is not None
            return (session if known else _with_call(session, Call(item.call_id, item.id, imported=True))), ()
        case ItemCreated(item=item) if item.type == "function_call_output":
            return _answered(session, item.call_id or "", item.output or "")
        case ItemDeleted(item_id=item_id):
            return _changed(session, "open", "cancelled", item_id), ()
        case EpochAdvanced() | ResponseFinished(status="cancelled"):
            return _changed(session, "open", "stale", None), ()
    return session, ()


def _with_call(session: Session, call: Call) -> Session:
    calls = (*session.calls, call)
    if len(calls) > KEPT_CALLS:
        oldest = next((at for at, one in enumerate(calls) if one.state != "open"), 0)
        calls = (*calls[:oldest], *calls[oldest + 1 :])
    return replace(session, calls=calls)


def _changed(session: Session, before: str, after: str, item_id: str | None) -> Session:
    """The calls in state ``before`` become ``after``: the one of this item, or all that the model made."""
    if not any(call.state == before for call in session.calls):
        return session
    calls = tuple(
        replace(call, state=after)
        if call.state == before and (call.item_id == item_id if item_id else not call.imported)
        else call
        for call in session.calls
    )
    return replace(session, calls=calls)


def _answered(session: Session, call_id: str, output: str) -> tuple[Session, tuple[Effect, ...]]:
    """An output is in. The model that called is told; it may go on by itself unless the call is stale, or the client

    is one that asks for every answer itself. An imported call is history: nobody waits for its output.
    """
    call = known_call(session, call_id)
    calls = tuple(replace(one, state="completed") if one is call else one for one in session.calls)
    if call is not None and call.imported:
        return replace(session, calls=calls), ()
    respond = not session.asks_for_answers and (call is None or call.state == "open")
    request = ToolOutput(epoch=session.epoch, call_id=call_id, output=output, respond=respond)
    return replace(session, calls=calls), (AskModel(request),)
