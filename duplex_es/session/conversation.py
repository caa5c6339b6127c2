"""The conversation: items the client adds, reads, deletes, and the answers to function calls.

Source: docs/reference/realtime-api.md, "Conversation items".
"""

from __future__ import annotations

from ..protocol import CreateItem, DeleteItem, RetrieveItem, given, wire_name
from ..protocol import Item as WireItem
from .calls import refused_output
from .committing import next_item_id
from .effects import Effect
from .events import Fact, ItemCreated, ItemDeleted, ItemRetrieved
from .refusals import refuse
from .spoken_items import create_spoken, written
from .state import Item, Session, replace

ROOT = "root"
"""The place before the first item, as stock clients name it."""


def decide_create(session: Session, command: CreateItem, now_ms: int) -> tuple[Fact, ...]:
    """Add a completed item to the conversation. A message never starts an answer by itself."""
    wire = command.item
    if not isinstance(wire, WireItem):
        return refuse(command, "bad_event", "conversation.item.create needs item, an object.", "item")
    misplaced = _misplaced(session, command, wire)
    if misplaced:
        return misplaced
    kind = wire.type if isinstance(wire.type, str) else "message"
    if kind == "function_call_output":
        return _create_output(session, command, wire)
    if kind == "function_call":
        return _create_call(session, command, wire)
    if kind != "message":
        allowed = "message, function_call or function_call_output"
        return refuse(command, "bad_event", f"item.type must be {allowed}.", "item.type")
    return _create_message(session, command, wire)


def _misplaced(session: Session, command: CreateItem, wire: WireItem) -> tuple[Fact, ...]:
    """The refusal of an item that names a place that is not there, or an id that is taken.

    A seed client's item takes the place of one with its id; clients of the stock dialects rely on its being refused.
    """
    after = command.previous_item_id
    if isinstance(after, str) and after not in (ROOT, session.input.item_id) and session.item(after) is None:
        return refuse(command, "item_not_found", f"There is no item {after!r} to follow.", "previous_item_id")
    if session.asks_for_answers and isinstance(wire.id, str) and session.item(wire.id) is not None:
        return refuse(command, "item_exists", f"There is an item {wire.id!r} already.", "item.id")
    if session.response is not None and wire.id == session.response.item_id:
        return refuse(command, "bad_event", "This item is being spoken; give the new one another id.", "item.id")
    return ()


def _identity(session: Session, command: CreateItem, wire: WireItem) -> dict[str, str | None]:
    """The id and the place of a new item: the client's own where it gave them. Items are never put in another order."""
    after = command.previous_item_id
    place = session.last_item_id if not isinstance(after, str) else None if after == ROOT else after
    return {
        "id": wire.id if isinstance(wire.id, str) and wire.id else next_item_id(session),
        "previous_item_id": place,
    }


def _create_message(session: Session, command: CreateItem, wire: WireItem) -> tuple[Fact, ...]:
    """A message: written down as it is, or, where a user's holds sound, spoken into the session and committed."""
    role = wire.role if isinstance(wire.role, str) and wire.role else "user"
    parts = wire.content if isinstance(wire.content, list) else []
    if role == "user" and any(isinstance(part.audio, bytes) for part in parts):
        place = _identity(session, command, wire)
        return create_spoken(session, command, parts, str(place["id"]), place["previous_item_id"])
    text = " ".join(said for said in map(written, parts) if said)
    if not text:
        return refuse(command, "bad_event", "item.content needs a part with non-empty text.", "item.content")
    item = Item(
        **_identity(session, command, wire),  # type: ignore[arg-type]
        role=role,
        part="text",
        text=text,
    )
    return (ItemCreated(item=item),)


def _create_call(session: Session, command: CreateItem, wire: WireItem) -> tuple[Fact, ...]:
    """A function call of an earlier session, replayed into this one's history."""
    if not isinstance(wire.call_id, str) or not wire.call_id or not isinstance(wire.name, str):
        return refuse(command, "bad_event", "A function_call item needs call_id and name.", "item.call_id")
    item = Item(
        **_identity(session, command, wire),  # type: ignore[arg-type]
        type="function_call",
        role="assistant",
        call_id=wire.call_id,
        name=wire.name,
        arguments=wire.arguments if isinstance(wire.arguments, str) else "",
    )
    return (ItemCreated(item=item),)


def _create_output(session: Session, command: CreateItem, wire: WireItem) -> tuple[Fact, ...]:
    """The answer to a function call: of a known call, a string, and only once."""
    refused = refused_output(session, command, wire)
    if refused is not None:
        return refused
    item = Item(
        **_identity(session, command, wire),  # type: ignore[arg-type]
        type="function_call_output",
        call_id=given(wire.call_id, ""),
        output=given(wire.output, ""),
    )
    return (ItemCreated(item=item),)


def _find(session: Session, command: RetrieveItem | DeleteItem) -> Item | tuple[Fact, ...]:
    if not isinstance(command.item_id, str) or not command.item_id:
        return refuse(command, "missing_item_id", "item_id is missing; name the item.", "item_id")
    item = session.item(command.item_id)
    if item is None:
        # Stock clients are told by the command's name which of their codes this is.
        message = f"{wire_name(command)}: There is no item {command.item_id!r}."
        return refuse(command, "item_not_found", message, "item_id")
    return item


def decide_retrieve(session: Session, command: RetrieveItem, now_ms: int) -> tuple[Fact, ...]:
    """Show an item as it stands."""
    found = _find(session, command)
    return (ItemRetrieved(item=found),) if isinstance(found, Item) else found


def decide_delete(session: Session, command: DeleteItem, now_ms: int) -> tuple[Fact, ...]:
    """Take an item out of the conversation; the answer that is being given cannot be deleted, only cancelled."""
    found = _find(session, command)
    if not isinstance(found, Item):
        return found
    if session.response is not None and session.response.item_id == found.id:
        return refuse(command, "bad_event", "This item is being spoken; cancel its response first.", "item_id")
    return (ItemDeleted(item_id=found.id),)


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one conversation fact. Total: deleting what is gone changes nothing."""
    match fact:
        case ItemCreated(item=item):
            return replace(session.with_item(item), items_count=session.items_count + 1), ()
        case ItemDeleted(item_id=item_id):
            return replace(session, items=tuple(item for item in session.items if item.id != item_id)), ()
    return session, ()
