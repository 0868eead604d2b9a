"""The steps and votes of a class, without a server."""

from __future__ import annotations

import math
from itertools import count

import pytest

from tests.understudy.page.classroom.steps import ANSWER, BEGIN, CHECK, CHECKED, CHOOSE, GUESS, MOMENT, PREDICT
from understudy.page.classroom.classroom import (
    MOST_PHONES,
    MOST_QUESTIONS,
    Classroom,
    Question,
    Refusal,
    RightAnswer,
    Step,
)


def classroom() -> Classroom:
    secrets = count(1)
    return Classroom("The zombie", lambda: f"phone {next(secrets)}", lambda: None)


@pytest.fixture
def room() -> Classroom:
    return classroom()


def refused(room: Classroom, phone: str, name: str, answer: float) -> int:
    with pytest.raises(Refusal) as refusal:
        room.vote(phone, name, answer)
    return refusal.value.status


def test_before_the_first_step_a_phone_has_only_the_title(room: Classroom) -> None:
    shown = room.phone_document(room.join(None))
    assert (shown.title, shown.step, shown.is_open, shown.tally) == ("The zombie", None, False, None)
    assert room.teacher_document().step == 0


def test_a_phone_that_joins_late_is_at_the_step_of_the_class(room: Classroom) -> None:
    room.show(BEGIN)
    room.show(MOMENT)
    assert room.phone_document(room.join(None)).step == MOMENT


def test_a_phone_has_one_vote_which_it_changes_until_the_votes_are_revealed(room: Classroom) -> None:
    phone, other = room.join(None), room.join(None)
    room.show(PREDICT)
    for answer in (0, 2, 1):
        room.vote(phone, "predict", answer)
    room.vote(other, "predict", 0)
    assert room.phone_document(phone).yours == 1
    assert room.teacher_document().polls["predict"].answered == 2
    room.reveal("predict")
    tally = room.phone_document(phone).tally
    assert tally is not None
    assert tally.counts == (1, 1, 0)
    assert refused(room, phone, "predict", 0) == 409
    assert room.phone_document(phone).yours == 1


def test_the_votes_are_on_no_page_before_they_are_revealed(room: Classroom) -> None:
    phone = room.join(None)
    room.show(PREDICT)
    room.vote(phone, "predict", 1)
    assert room.phone_document(phone).tally is None
    assert room.teacher_document().polls["predict"].tally is None


def test_the_right_answer_reaches_phones_with_the_step_that_answers_only(room: Classroom) -> None:
    phone, other = room.join(None), room.join(None)
    room.show(Step(step=2, of=5, kind="predict", headline="", question=CHOOSE, right=RightAnswer(value=1)))
    room.vote(phone, "predict", 1)
    room.vote(other, "predict", 2)
    asked = room.phone_document(phone)
    assert asked.step is not None
    assert (asked.step.right, asked.is_right) == (None, None)
    room.show(ANSWER)
    answered = room.phone_document(phone)
    assert answered.tally is not None
    assert (answered.is_right, room.phone_document(other).is_right) == (True, False)
    assert (answered.tally.answered, answered.tally.are_right, answered.tally.right) == (2, 1, RightAnswer(value=1))


def test_a_right_answer_that_the_run_gives_later_is_added(room: Classroom) -> None:
    phone = room.join(None)
    room.show(PREDICT)
    room.vote(phone, "predict", 1)
    room.show(Step(step=4, of=5, kind="answer", headline="", question=CHOOSE))
    assert room.phone_document(phone).is_right is None
    room.show(ANSWER)
    assert room.phone_document(phone).is_right is True


def test_votes_are_taken_at_the_step_that_asks_only(room: Classroom) -> None:
    phone = room.join(None)
    assert refused(room, phone, "predict", 1) == 409
    room.show(PREDICT)
    assert refused(room, phone, "check", 1) == 409
    room.show(MOMENT)
    assert refused(room, phone, "predict", 1) == 409
    room.show(PREDICT)
    room.vote(phone, "predict", 1)


@pytest.mark.parametrize("answer", [-1, 3, 0.5, math.nan, math.inf])
def test_an_answer_that_is_no_choice_is_refused(room: Classroom, answer: float) -> None:
    phone = room.join(None)
    room.show(PREDICT)
    assert refused(room, phone, "predict", answer) == 400
    assert room.phone_document(phone).yours is None


def test_numbers_are_sorted_with_their_median_and_the_bound_of_the_right_one(room: Classroom) -> None:
    phones = [room.join(None) for _ in range(4)]
    room.show(CHECK)
    for phone, number in zip(phones, (300, -2.5, 110, 90), strict=True):
        room.vote(phone, "check", number)
    room.show(CHECKED)
    tally = room.teacher_document().polls["check"].tally
    assert tally is not None
    assert (tally.numbers, tally.median, tally.are_right) == ((-2.5, 90, 110, 300), 100, 2)
    shown = room.phone_document(phones[2])
    assert shown.tally is not None
    assert (shown.tally.numbers, shown.tally.median, shown.is_right) == ((), 100, True)


@pytest.mark.parametrize("answer", [math.nan, math.inf, 1e13, -(10**400)])
def test_a_number_without_an_end_is_refused(room: Classroom, answer: float) -> None:
    phone = room.join(None)
    room.show(CHECK)
    assert refused(room, phone, "check", answer) == 400


def test_a_phone_that_has_not_joined_has_no_vote(room: Classroom) -> None:
    room.show(PREDICT)
    assert refused(room, "phone 1", "predict", 1) == 401
    assert room.join("phone of another class") == "phone 1"


def test_a_class_has_a_bounded_number_of_phones_and_those_that_joined_stay(room: Classroom) -> None:
    phones = [room.join(None) for _ in range(MOST_PHONES)]
    with pytest.raises(Refusal, match="300 phones"):
        room.join(None)
    assert room.join(phones[7]) == phones[7]


def test_a_class_has_a_bounded_number_of_questions(room: Classroom) -> None:
    for number in range(MOST_QUESTIONS):
        room.show(Step(step=1, of=1, kind="check", headline="", question=Question(name=str(number), text="?")))
    with pytest.raises(Refusal, match="16 questions"):
        room.show(PREDICT)


def test_a_question_whose_text_changes_keeps_its_votes_and_one_with_other_choices_does_not(room: Classroom) -> None:
    phone = room.join(None)
    room.show(CHECK)
    room.vote(phone, "check", 7)
    room.show(Step(step=5, of=5, kind="check", headline="", question=Question(name="check", text="How long, then?")))
    assert room.phone_document(phone).yours == 7
    room.show(Step(step=5, of=5, kind="check", headline="", question=Question(name="check", text="", choices=("a",))))
    assert room.phone_document(phone).yours is None


def test_only_what_all_phones_show_raises_the_version(room: Classroom) -> None:
    phone = room.join(None)
    room.show(PREDICT)
    before = room.phone_document(phone).version
    room.vote(phone, "predict", 1)
    room.show(PREDICT)
    assert room.phone_document(phone).version == before
    room.reveal("predict")
    assert room.phone_document(phone).version == before + 1


def test_a_question_that_was_not_asked_cannot_be_revealed(room: Classroom) -> None:
    with pytest.raises(Refusal, match="not been asked"):
        room.reveal("predict")


def test_the_counts_have_every_question_also_those_not_revealed(room: Classroom) -> None:
    phone = room.join(None)
    room.show(PREDICT)
    room.vote(phone, "predict", 2)
    room.show(CHECK)
    phones, counts = room.counts()
    assert phones == 1
    assert [(each.question, each.tally.answered) for each in counts] == [(CHOOSE, 1), (GUESS, 0)]
    assert counts[0].tally.counts == (0, 0, 1)
