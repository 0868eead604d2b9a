"""The counts of a class as JSON and as a page."""

from __future__ import annotations

import msgspec

from tests.understudy.page.classroom.steps import CHOOSE, GUESS
from understudy.page.classroom.classroom import Counts, Question, RightAnswer, Tally
from understudy.page.classroom.results import ClassResults, results_page

CHOSEN = Counts(question=CHOOSE, tally=Tally(answered=4, counts=(1, 3, 0), right=RightAnswer(value=1), are_right=3))
GUESSED = Counts(question=GUESS, tally=Tally(answered=3, numbers=(1, 20, 300), median=20))


def results(*questions: Counts) -> ClassResults:
    return ClassResults(lesson="zombie", title="The zombie", date="2026-01-01", phones=5, questions=questions)


def test_the_page_has_each_question_with_its_counts() -> None:
    page = results_page(results(CHOSEN, GUESSED))
    for text in ("5 phones took part", "What does it do?", "4 answers, 3 of them right", "✓ It sends.", "1, 20, 300"):
        assert text in page
    assert page.count("<rect") == 3


def test_a_question_without_answers_has_no_median() -> None:
    empty = Counts(question=GUESS, tally=Tally(answered=0))
    page = results_page(results(empty))
    assert "0 answers" in page
    assert "median" not in page
    assert "no question" in results_page(results())


def test_a_text_is_no_markup() -> None:
    named = Counts(question=Question(name="q", text="<b>?"), tally=Tally(answered=0))
    assert "<b>" not in results_page(results(named))


def test_the_json_has_counts_only() -> None:
    found = msgspec.to_builtins(results(CHOSEN))
    assert set(found) == {"version", "lesson", "title", "date", "phones", "questions"}
    assert set(found["questions"][0]) == {"question", "tally"}
