"""What was said, in words: from it a session of a server can be begun anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from duplex_es.model import HistoryItem
from duplex_es.protocol import CreateItem
from duplex_es.protocol.objects import ContentPart, Item

MOST_ITEMS = 400


class Past:
    """Grows as things are said; the session's own history replaces it whenever it comes."""

    def __init__(self, items: Iterable[HistoryItem] = ()) -> None:
        self.items = list(items)
        self._open = ""

    def replace(self, items: Sequence[HistoryItem]) -> None:
        """The session's own view: it knows better."""
        self.items = list(items)

    def add(self, item: HistoryItem) -> None:
        """Something was said, called or answered."""
        if item.text or item.call_id:
            self.items.append(item)
            del self.items[:-MOST_ITEMS]

    def speak(self, text: str) -> None:
        """More of the open answer."""
        self._open += text

    def end_answer(self, name: str) -> None:
        """The open answer is over."""
        text, self._open = self._open, ""
        self.add(HistoryItem(item_id=name, role="assistant", text=text))

    def heard_only(self, name: str, text: str | None) -> None:
        """An interruption: of the open answer, else of the last, the caller heard only ``text``."""
        if self._open:
            said, self._open = self._open, ""
            self.add(HistoryItem(item_id=name, role="assistant", text=said if text is None else text))
            return
        if text is None:
            return
        for at in range(len(self.items) - 1, -1, -1):
            item = self.items[at]
            if item.role == "assistant" and item.call_id is None:
                self.items[at] = msgspec.structs.replace(item, text=text)
                return


def as_items(history: Iterable[HistoryItem]) -> list[CreateItem]:
    """``history`` told to a server that knows nothing of it; a call without output stays untold, nobody answers it."""
    entries = list(history)
    answered = {entry.call_id for entry in entries if entry.role == "tool"}
    called = {entry.call_id for entry in entries if entry.role == "assistant" and entry.call_id}
    told = []
    for entry in entries:
        if entry.role == "tool":
            if entry.call_id in called:
                told.append(output_item(entry.call_id or "", entry.text))
        elif entry.call_id is not None:
            if entry.call_id in answered:
                call = Item(type="function_call", call_id=entry.call_id, name=entry.name or "", arguments=entry.text)
                told.append(CreateItem(item=call))
        elif entry.text:
            told.append(message_item(entry))
    return told


def message_item(entry: HistoryItem) -> CreateItem:
    """A message in words, under the name it has here."""
    kind = "output_text" if entry.role == "assistant" else "input_text"
    content = [ContentPart(type=kind, text=entry.text)]
    # An answer's own name belongs to the server that gives it.
    name = {} if entry.role == "assistant" else {"id": entry.item_id}
    return CreateItem(item=Item(type="message", role=entry.role, content=content, **name))


def output_item(call_id: str, output: str) -> CreateItem:
    """The output of a call."""
    return CreateItem(item=Item(type="function_call_output", call_id=call_id, output=output))
