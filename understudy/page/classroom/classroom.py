"""`Classroom`: the step that a class is at, and the votes of its phones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

MOST_PHONES: Final = 300
"""Maximum number of phones that may join."""
MOST_QUESTIONS: Final = 16
"""Maximum number of questions that votes are kept of."""
LARGEST_NUMBER: Final = 1e12
"""Largest absolute value of a number as an answer."""

_Name = Annotated[str, Meta(min_length=1, max_length=64)]
_Text = Annotated[str, Meta(max_length=4000)]


class Refusal(Exception):
    """A request of a phone or of the teacher is refused. The message is a sentence for a person.

    Attributes:
        status: the status of the HTTP answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question with choices, or with a number in `unit` if there are none."""

    name: _Name
    text: _Text
    choices: Annotated[tuple[_Text, ...], Meta(max_length=12)] = ()
    unit: _Text = ""


class RightAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer: the place of a choice, from 0, or a number.

    Attributes:
        within: the distance up to which another number is right also.
    """

    value: float
    within: Annotated[float, Meta(ge=0)] = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The step of the lesson's page.

    Attributes:
        step: its number, from 1.
        kind: `data-kind` of the page. Votes are taken in `predict` and `check`, and revealed by `answer`.
        question: the question that is asked or answered.
        right: its right answer, once it is shown.
    """

    step: Annotated[int, Meta(ge=1, le=10_000)]
    of: Annotated[int, Meta(ge=1, le=10_000)]
    kind: Literal["question", "predict", "moment", "answer", "check", "read"]
    headline: _Text
    question: Question | None = None
    right: RightAnswer | None = None


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The votes on a question, counted.

    Attributes:
        answered: the number of votes.
        counts: the number of votes for each choice.
        numbers: the votes, sorted, if the question asks for a number.
        median: the median of `numbers`; None if there is none.
        are_right: the number of right votes; None until the right answer is shown.
    """

    answered: int
    counts: tuple[int, ...] = ()
    numbers: tuple[float, ...] = ()
    median: float | None = None
    right: RightAnswer | None = None
    are_right: int | None = None


class PhoneDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The data that a phone shows.

    Attributes:
        version: rises with each change of what all phones show, so that a phone can leave out an answer that an event
            has overtaken.
        step: None until the teacher's page has been opened.
        is_open: whether votes on the step's question are taken now.
        yours: the vote of this phone.
        tally: the votes of the class; None until they are revealed.
    """

    title: str
    version: int
    step: Step | None
    is_open: bool
    yours: float | None
    is_right: bool | None
    tally: Tally | None


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """The votes on a question as the teacher's page shows them: only their number until they are revealed."""

    question: Question
    answered: int
    tally: Tally | None


class TeacherDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The data about the class that the teacher's page shows; `step` is the number of its step, 0 before the first."""

    phones: int
    step: int
    polls: dict[str, Poll]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a class: what remains of it."""

    question: Question
    tally: Tally


@dataclass(slots=True)
class _Votes:
    question: Question
    of: dict[str, float] = field(default_factory=dict)
    is_revealed: bool = False
    right: RightAnswer | None = None

    def is_right(self, vote: float) -> bool | None:
        return None if self.right is None else abs(vote - self.right.value) <= self.right.within

    def tally(self) -> Tally:
        votes = sorted(self.of.values())
        are_right = None if self.right is None else sum(self.is_right(each) is True for each in votes)
        counted = Tally(answered=len(votes), right=self.right, are_right=are_right)
        if self.question.choices:
            counts = tuple(votes.count(number) for number in range(len(self.question.choices)))
            return msgspec.structs.replace(counted, counts=counts)
        return msgspec.structs.replace(counted, numbers=tuple(votes), median=median(votes) if votes else None)


class Classroom:
    """Holds the step and the votes of one class. Its methods run in one thread.

    Args:
        title: the title of the lesson.
        new_phone: returns the secret of another phone, never the same one again.
        on_change: is called when something of what all phones show has changed.
    """

    def __init__(self, title: str, new_phone: Callable[[], str], on_change: Callable[[], None]) -> None:
        self._title = title
        self._new_phone = new_phone
        self._on_change = on_change
        self._phones: set[str] = set()
        self._step: Step | None = None
        self._votes: dict[str, _Votes] = {}
        self.version = 0
        """Rises with each change of what all phones show."""

    # ------------------------------------------------------------------ for phones

    def join(self, phone: str | None) -> str:
        """Return the secret of a phone: the one that it has if it has joined, otherwise a new one.

        Raises:
            Refusal: the class has `MOST_PHONES` phones.
        """
        if phone is not None and phone in self._phones:
            return phone
        if len(self._phones) >= MOST_PHONES:
            raise Refusal(503, f"this class has {MOST_PHONES} phones already, which is the most it may have")
        joined = self._new_phone()
        self._phones.add(joined)
        return joined

    def known(self, phone: str | None) -> str:
        """Return the secret of a phone that has joined. Raises Refusal for any other."""
        if phone is None or phone not in self._phones:
            raise Refusal(401, "this phone has not joined the class; scan its QR code, or type the code of the class")
        return phone

    def vote(self, phone: str, name: str, answer: float) -> None:
        """Note the answer of a phone, in place of the one before.

        Args:
            answer: the place of a choice, from 0, or a number.

        Raises:
            Refusal: the phone has not joined, the question is not open, or it has no such answer.
        """
        self.known(phone)
        votes = self._open_votes()
        if votes is None or votes.question.name != name:
            raise Refusal(
                409, f"the question {name!r} is not open: the class is at another step, or has seen the votes"
            )
        _check(votes.question, answer)
        votes.of[phone] = float(answer)

    def phone_document(self, phone: str) -> PhoneDocument:
        """Return what a phone shows now."""
        votes = self._votes_of_step()
        yours = votes.of.get(phone) if votes is not None else None
        shown = votes if votes is not None and votes.is_revealed else None
        return PhoneDocument(
            title=self._title,
            version=self.version,
            step=self._step,
            is_open=self._open_votes() is not None,
            yours=yours,
            is_right=shown.is_right(yours) if shown is not None and yours is not None else None,
            # Each number of a class is drawn at the front only; a phone has its own and the median.
            tally=msgspec.structs.replace(shown.tally(), numbers=()) if shown is not None else None,
        )

    # ------------------------------------------------------------------ for the teacher

    def show(self, step: Step) -> None:
        """Take all phones to a step.

        Raises:
            Refusal: the class has had `MOST_QUESTIONS` questions.
        """
        if step == self._step:
            return
        if step.question is not None:
            self._ask(step.question, step)
        # A right answer reaches the phones with the votes, so the step that asks must not have it.
        self._step = step if step.kind == "answer" else msgspec.structs.replace(step, right=None)
        self._change()

    def reveal(self, name: str) -> None:
        """Show the votes on a question. From now on they do not change.

        Raises:
            Refusal: the class has not been asked this question.
        """
        votes = self._votes.get(name)
        if votes is None:
            raise Refusal(409, f"the class has not been asked the question {name!r}")
        votes.is_revealed = True
        self._change()

    def teacher_document(self) -> TeacherDocument:
        """Return what the teacher's page shows about the class now."""
        polls = {
            name: Poll(
                question=votes.question,
                answered=len(votes.of),
                tally=votes.tally() if votes.is_revealed else None,
            )
            for name, votes in self._votes.items()
        }
        step = 0 if self._step is None else self._step.step
        return TeacherDocument(phones=len(self._phones), step=step, polls=polls)

    def counts(self) -> tuple[int, list[Counts]]:
        """Return the number of phones, and the counts of all questions, also of those that are not revealed."""
        return len(self._phones), [Counts(question=each.question, tally=each.tally()) for each in self._votes.values()]

    # ------------------------------------------------------------------ both

    def _ask(self, question: Question, step: Step) -> None:
        votes = self._votes.get(question.name)
        if votes is None or len(votes.question.choices) != len(question.choices):
            if votes is None and len(self._votes) >= MOST_QUESTIONS:
                raise Refusal(409, f"a class may be asked {MOST_QUESTIONS} questions")
            votes = self._votes[question.name] = _Votes(question)
        votes.question = question
        if step.kind == "answer":
            votes.is_revealed = True
            votes.right = step.right

    def _votes_of_step(self) -> _Votes | None:
        step = self._step
        return self._votes[step.question.name] if step is not None and step.question is not None else None

    def _open_votes(self) -> _Votes | None:
        votes = self._votes_of_step()
        is_asked = self._step is not None and self._step.kind in ("predict", "check")
        return votes if votes is not None and is_asked and not votes.is_revealed else None

    def _change(self) -> None:
        self.version += 1
        self._on_change()


def _check(question: Question, answer: float) -> None:
    """Raise Refusal if a question has no such answer."""
    if not question.choices:
        # A whole number may be too large to be a float, so the comparison comes first.
        if not (abs(answer) <= LARGEST_NUMBER and math.isfinite(answer)):
            raise Refusal(400, f"the answer is no number from -{LARGEST_NUMBER:.0f} to {LARGEST_NUMBER:.0f}")
    elif answer not in range(len(question.choices)):
        raise Refusal(400, f"the answer {answer!r} is no choice; expected 0 to {len(question.choices) - 1}")
