"""What an answer still has to say aloud: its words cut into clauses, their sound as it is made, and how far it is told.

Pure, and the same words cut the same way whenever they come: a successor that knows ``Standing`` goes on in the middle
of a clause, once that one's sound is made again.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

import msgspec

from ..speech.sentences import take_sentences

SILENT_FRAMES = 6
"""After so many frames without a word what there is of a clause is said: no more of it may come."""
FIRST_WORDS = 8
"""The first clause of an answer is no longer than this, so that the answer is heard early."""
LONGEST_CHARS = 240
"""What has neither pauses nor words is cut after so much."""
_PAUSE = re.compile(r"\w[,;:.!?…]+[\"'\u201d\u2019)\]]*\s+")
_NOTHING = bytes(2)


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """All of a mouth but sound: clauses that are not told to their end, and how much of the first one is."""

    clauses: tuple[str, ...] = ()
    rest: str = ""
    told_bytes: int = 0
    told_chars: int = 0
    silent: int = 0
    is_first: bool = True


@dataclass(slots=True, eq=False)
class Clause:
    """One clause on its way. ``before`` is what the answer said ahead of it."""

    text: str
    before: str = ""
    is_begun: bool = False
    is_whole: bool = False
    told_bytes: int = 0
    told_chars: int = 0
    _sound: deque[tuple[bytes, int]] = field(default_factory=deque)
    _made_bytes: int = 0
    _made_chars: int = 0

    def put(self, pcm: bytes, text: str) -> None:
        """The next piece of its sound (int16) and the words that begin in it. What was told already is left out."""
        known_bytes = max(0, min(len(pcm), self.told_bytes - self._made_bytes))
        self._made_bytes += len(pcm)
        self._made_chars += len(text)
        if pcm[known_bytes:] or text:
            self._sound.append((pcm[known_bytes:], self._made_chars))

    def end(self) -> None:
        """No more sound comes; words that had none go with a sample of silence."""
        self.is_whole = True
        if self._made_chars < len(self.text):
            self._sound.append((b"" if self._sound else _NOTHING, len(self.text)))

    def take(self, room: int) -> tuple[bytes, str]:
        """At most ``room`` bytes of what is made, with the words that begin in it."""
        pcm, chars = bytearray(), self.told_chars
        while self._sound and (len(pcm) < room or not self._sound[0][0]):
            piece, until = self._sound.popleft()
            left = room - len(pcm)
            pcm += piece[:left]
            chars = max(chars, min(until, len(self.text)))
            if piece[left:]:
                self._sound.appendleft((piece[left:], until))
        words = self.text[self.told_chars : chars]
        self.told_bytes += len(pcm)
        self.told_chars = chars
        return bytes(pcm), words

    @property
    def is_told(self) -> bool:
        """Whether nothing of it is left."""
        return self.is_whole and not self._sound


class Mouth:
    """One answer after another; ``drop`` between them is for those that are cut."""

    def __init__(self, standing: Standing | None = None) -> None:
        standing = standing or Standing()
        self._clauses = deque(Clause(text) for text in standing.clauses)
        if self._clauses:
            self._clauses[0].told_bytes, self._clauses[0].told_chars = standing.told_bytes, standing.told_chars
        self._rest = standing.rest
        self._silent = standing.silent
        self._is_first = standing.is_first
        self._before = ""

    @property
    def is_busy(self) -> bool:
        """Whether there is anything left to say."""
        return bool(self._clauses or self._rest)

    def hear(self, text: str) -> None:
        """The words of one frame, none for a frame in which the model is silent."""
        self._silent = 0 if text else self._silent + 1
        self._rest += text
        while text and (clause := self._clause()):
            self._close(clause)
        if self._rest and self._silent >= SILENT_FRAMES:
            self._close(self._rest)

    def over(self) -> None:
        """The answer is told to its end; what comes is another one."""
        self._is_first, self._before = True, ""

    def drop(self) -> None:
        """Say no more of this answer."""
        self._clauses.clear()
        self._rest = ""
        self.over()

    def next_clause(self) -> Clause | None:
        """The first clause whose sound nobody makes yet."""
        return next((clause for clause in self._clauses if not clause.is_begun), None)

    def take(self, size: int) -> tuple[bytes, str]:
        """At most ``size`` bytes of sound that are made, and the words that begin in them."""
        pcm, words = b"", ""
        while self._clauses and len(pcm) < size:
            more, said = self._clauses[0].take(size - len(pcm))
            pcm, words = pcm + more, words + said
            if not self._clauses[0].is_told:
                break
            self._clauses.popleft()
        return pcm, words

    def standing(self) -> Standing:
        """What a successor needs."""
        first = self._clauses[0] if self._clauses else Clause("")
        texts = tuple(clause.text for clause in self._clauses)
        return Standing(texts, self._rest, first.told_bytes, first.told_chars, min(self._silent, 255), self._is_first)

    def _clause(self) -> str:
        """The clause that is surely complete at the beginning of what is left, if there is one."""
        if not self._is_first:
            sentences, _ = take_sentences(self._rest)
            return sentences[0] if sentences else self._rest[:LONGEST_CHARS] if self._is_too_long else ""
        if pause := _PAUSE.search(self._rest):
            return self._rest[: pause.end()]
        words = list(re.finditer(r"\S+\s+", self._rest))
        if len(words) >= FIRST_WORDS:
            return self._rest[: words[FIRST_WORDS - 1].end()]
        return self._rest[:LONGEST_CHARS] if self._is_too_long else ""

    @property
    def _is_too_long(self) -> bool:
        """Whether what is left has no place to cut it at."""
        return len(self._rest) > LONGEST_CHARS

    def _close(self, text: str) -> None:
        self._rest = self._rest[len(text) :]
        self._clauses.append(Clause(text, self._before))
        self._before += text
        self._is_first = False
