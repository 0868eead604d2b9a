"""Steps of a lesson, as its page sends them."""

from __future__ import annotations

import msgspec

from understudy.page.classroom.classroom import Question, RightAnswer, Step

CHOOSE = Question(name="predict", text="What does it do?", choices=("It waits.", "It sends.", "It stops."))
GUESS = Question(name="check", text="How long?", unit="ms")

BEGIN = Step(step=1, of=5, kind="question", headline="Who wins?")
PREDICT = Step(step=2, of=5, kind="predict", headline="", question=CHOOSE)
MOMENT = Step(step=3, of=5, kind="moment", headline="The controller dies.")
ANSWER = Step(step=4, of=5, kind="answer", headline="", question=CHOOSE, right=RightAnswer(value=1))
CHECK = Step(step=5, of=5, kind="check", headline="", question=GUESS)
CHECKED = Step(step=5, of=5, kind="answer", headline="", question=GUESS, right=RightAnswer(value=100, within=10))


def body_of(step: Step) -> object:
    """The body of the request with which the page takes the class to a step."""
    return msgspec.to_builtins(step)
