"""Clauses cut early and the same way, their words with their sound, and a successor in the middle of one."""

from __future__ import annotations

import re

import pytest

from workers.models.nemotron.mouth import FIRST_WORDS, LONGEST_CHARS, SILENT_FRAMES, Clause, Mouth

pytestmark = pytest.mark.unit

TEXT = "Well, Dr. Smith is here, and he waits. He has time. Shall I"


def heard(mouth: Mouth, text: str) -> None:
    """The words of ``text``, a frame each."""
    for word in re.findall(r"\s*\S+", text):
        mouth.hear(word)


def clauses(mouth: Mouth) -> list[str]:
    return list(mouth.standing().clauses)


def speak(clause: Clause, *, word_bytes: int = 4) -> None:
    """Make all of its sound: so many bytes for each word."""
    clause.is_begun = True
    for number, word in enumerate(re.findall(r"\s*\S+\s*", clause.text)):
        clause.put(bytes([number + 1] * word_bytes), word)
    clause.end()


def test_the_first_clause_is_cut_early_and_later_ones_are_sentences() -> None:
    mouth = Mouth()
    heard(mouth, TEXT)
    assert clauses(mouth) == ["Well, ", "Dr. Smith is here, and he waits. ", "He has time. "]
    assert mouth.standing().rest == "Shall I"


def test_a_first_clause_without_a_pause_is_cut_after_some_words() -> None:
    mouth = Mouth()
    heard(mouth, "one two three four five six seven eight nine ten")
    assert [len(clause.split()) for clause in clauses(mouth)] == [FIRST_WORDS]


def test_what_has_no_words_is_cut_all_the_same() -> None:
    mouth = Mouth()
    for _ in range(1_000):
        mouth.hear("x")
    assert [len(clause) for clause in clauses(mouth)] == [LONGEST_CHARS] * 4


def test_what_is_left_is_said_once_the_model_has_been_silent() -> None:
    mouth = Mouth()
    mouth.hear("Yes")
    for _ in range(SILENT_FRAMES - 1):
        mouth.hear("")
    assert clauses(mouth) == [] and mouth.is_busy
    mouth.hear("")
    assert clauses(mouth) == ["Yes"]


def test_words_come_with_the_sound_they_begin_in_and_nothing_is_lost() -> None:
    mouth = Mouth()
    heard(mouth, TEXT)
    while (clause := mouth.next_clause()) is not None:
        speak(clause)
    taken = [mouth.take(6) for _ in range(9)]
    assert all(len(pcm) == 6 for pcm, _ in taken[:7])
    assert taken[0] == (b"\x01" * 4 + b"\x01" * 2, "Well, Dr. ")
    assert "".join(words for _, words in taken) == "Well, Dr. Smith is here, and he waits. He has time. "
    assert mouth.take(6) == (b"", "") and mouth.is_busy, "the rest is not a clause yet"


def test_words_without_sound_are_told_all_the_same() -> None:
    mouth = Mouth()
    heard(mouth, "Hm. So it is")
    clause = mouth.next_clause()
    assert clause is not None
    clause.end()
    assert mouth.take(100) == (bytes(2), "Hm. ")


def test_a_clause_is_told_by_its_own_text_whatever_the_talker_says_of_it() -> None:
    clause = Clause("one two")
    clause.put(b"ab", "ONE ")
    clause.put(b"cd", "two and three")
    clause.end()
    assert clause.take(2) == (b"ab", "one ") and clause.take(9) == (b"cd", "two")
    assert clause.is_told


def test_a_successor_goes_on_in_the_middle_of_a_clause() -> None:
    whole, mouth = Mouth(), Mouth()
    for one in (whole, mouth):
        heard(one, TEXT)
        while (clause := one.next_clause()) is not None:
            speak(clause)
    all_of_it = [whole.take(6) for _ in range(12)]
    for told in range(9):
        first = Mouth()
        heard(first, TEXT)
        while (clause := first.next_clause()) is not None:
            speak(clause)
        before = [first.take(6) for _ in range(told)]
        second = Mouth(first.standing())
        assert second.standing() == first.standing()
        while (clause := second.next_clause()) is not None:
            speak(clause)
        after = [second.take(6) for _ in range(12)]
        assert b"".join(pcm for pcm, _ in before + after) == b"".join(pcm for pcm, _ in all_of_it)
        assert "".join(words for _, words in before + after) == "".join(words for _, words in all_of_it)


def test_a_successor_whose_sound_is_shorter_says_the_words_once() -> None:
    first = Mouth()
    heard(first, "Well now, here")
    clause = first.next_clause()
    assert clause is not None
    speak(clause, word_bytes=40)
    first.take(60)
    second = Mouth(first.standing())
    again = second.next_clause()
    assert again is not None
    speak(again, word_bytes=2)
    assert second.take(100) == (b"", "")
    assert not second.next_clause() and second.standing().clauses == ()


def test_what_is_cut_is_not_said_and_the_next_answer_begins_anew() -> None:
    mouth = Mouth()
    heard(mouth, TEXT)
    mouth.drop()
    assert not mouth.is_busy and mouth.take(10) == (b"", "")
    heard(mouth, "Right, so be it. And")
    assert clauses(mouth)[0] == "Right, "


def test_a_clause_knows_what_was_said_before_it_in_its_answer() -> None:
    mouth = Mouth()
    heard(mouth, "Well, he is here. He waits. Or")
    said = []
    while (clause := mouth.next_clause()) is not None:
        said.append(clause.before)
        clause.is_begun = True
    assert said == ["", "Well, ", "Well, he is here. "]
    mouth.over()
    heard(mouth, "Yes, of course.")
    clause = mouth.next_clause()
    assert clause is not None and clause.before == ""
