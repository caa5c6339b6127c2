"""The calls a session's model has made, and the outputs that are said to it, one batch after another. Pure.

Calls that were written together are answered together, as the model was taught: what a batch is waits for the last of
its outputs, but not for long. Each call has a number, its id is made of it: who knows ``Standing`` and the outputs that
the conversation holds goes on in the middle of a batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import msgspec

from .tools import RESPONSE_END, ToolCall, response_of

MOST_PENDING = 8
"""Batches of outputs that are worth waiting for: each takes seconds, a frame a token."""
GROUP_FRAMES = 25
"""So long the first output of calls that were made together waits for the others."""
MOST_OPEN = 64
"""Calls that may lack an output; of those beyond, the oldest get none any more."""
LONGEST_OUTPUT_CHARS = 8_000
"""An output beyond this would take minutes to be said: the model is told that it was too long."""


class Group(msgspec.Struct, array_like=True):
    """Calls that were made together and lack an output, and for how many frames one of them has had one."""

    numbers: list[int]
    waited: int = 0


class Standing(msgspec.Struct, array_like=True):
    """All of ``Calls`` but the outputs. ``told`` frames of ``batch`` are in the model's memory."""

    made: int = 0
    untold: list[tuple[int | None, str | None, str]] = []
    groups: list[Group] = []
    batch: list[int] = []
    told: int = 0


class Calls:
    """``name`` is the session's, ``outputs`` what the conversation holds, by the id of the call."""

    def __init__(self, name: str, standing: Standing | None = None, outputs: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._standing = standing or Standing()
        self._outputs: dict[int, str] = {}
        open_ones = {number for group in self._standing.groups for number in group.numbers} | {*self._standing.batch}
        for number in open_ones:
            output = (outputs or {}).get(self.id_of(number))
            if output is not None:
                self._outputs[number] = output

    def id_of(self, number: int) -> str:
        """The id of a call, the same in every process."""
        return f"call_{hashlib.blake2b(f'{self._name}:{number}'.encode(), digest_size=8).hexdigest()}"

    @property
    def pending(self) -> int:
        """Batches that wait or are being said: something of them is there."""
        waiting = sum(any(number in self._outputs for number in group.numbers) for group in self._standing.groups)
        return waiting + bool(self._standing.batch)

    def standing(self) -> Standing:
        """What a successor needs; it changes with the calls."""
        return self._standing

    # -- calls -----------------------------------------------------------------------------------------------------

    def made(self, calls: Sequence[ToolCall]) -> None:
        """The model wrote these together."""
        now, numbers = self._standing, []
        for call in calls:
            number = None
            if call.name is not None:
                number, now.made = now.made, now.made + 1
                numbers.append(number)
            now.untold.append((number, call.name, call.arguments))
        if numbers:
            now.groups.append(Group(numbers))
        while len(now.groups) > 1 and sum(len(group.numbers) for group in now.groups) > MOST_OPEN:
            for number in now.groups.pop(0).numbers:
                self._outputs.pop(number, None)

    def next_untold(self) -> tuple[str | None, str | None, str] | None:
        """Id, name and arguments of the oldest call that the client was not told of; it is told now."""
        if not self._standing.untold:
            return None
        number, name, arguments = self._standing.untold.pop(0)
        return None if number is None else self.id_of(number), name, arguments

    # -- outputs ---------------------------------------------------------------------------------------------------

    def answered(self, call_id: str, output: str) -> bool:
        """The client's output for a call; false if no such call lacks one."""
        for number in (number for group in self._standing.groups for number in group.numbers):
            if number not in self._outputs and self.id_of(number) == call_id:
                self._outputs[number] = output
                return True
        return False

    def next_batch(self) -> str | None:
        """What is to be forced into the channel next, once for each frame; ``None`` while there is nothing to begin."""
        now, ready = self._standing, None
        for group in now.groups:
            there = [number for number in group.numbers if number in self._outputs]
            group.waited += bool(there)
            if ready is None and there and (len(there) == len(group.numbers) or group.waited > GROUP_FRAMES):
                ready = group
        if now.batch or ready is None:
            return None
        now.batch = [number for number in ready.numbers if number in self._outputs]
        now.told = 0
        ready.numbers = [number for number in ready.numbers if number not in self._outputs]
        ready.waited = 0
        now.groups = [group for group in now.groups if group.numbers]
        return self.batch()

    def batch(self) -> str:
        """All of what is being forced, ``told`` of it included; empty if nothing is."""
        if not self._standing.batch:
            return ""
        said = [told_as(self._outputs.get(number, "null")) for number in self._standing.batch]
        return response_of(said) + RESPONSE_END

    @property
    def told(self) -> int:
        """How many frames of the batch are in the model's memory."""
        return self._standing.told

    def forced(self, function: str) -> bool:
        """A frame of the batch is in the model's memory; whether that was the last one."""
        self._standing.told += 1
        if RESPONSE_END in function:
            self.give_up()
            return True
        return False

    def give_up(self) -> None:
        """The batch is over, or cannot be said."""
        for number in self._standing.batch:
            self._outputs.pop(number, None)
        self._standing.batch, self._standing.told = [], 0


def told_as(output: str) -> str:
    """An output as the model is told it: itself, or that it was too long."""
    if len(output) <= LONGEST_OUTPUT_CHARS:
        return output
    return json.dumps({"error": f"the output has {len(output)} characters, more than can be told"})
