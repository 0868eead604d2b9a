"""Tests of the file of armed answers: it is read again when it changes, and given answers stay counted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from understudy.brokers.machine.answers_file import AnswersFile, names_given, read_answers
from understudy.foundation.wire.armed_answers import ArmedAnswer

FIRST = ArmedAnswer(name="answer-1", api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, topic="orders")
SECOND = ArmedAnswer(name="answer-2", api="Fetch", error="NONE", throttle_ms=100, is_applied=True)


def write(path: Path, *answers: ArmedAnswer) -> None:
    temporary = path.with_name("new")
    temporary.write_bytes(msgspec.json.encode(answers))
    temporary.replace(path)


def test_answers_are_read_when_the_file_changes_and_given_as_often_as_armed(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    answers = AnswersFile(path)
    assert answers.left() == ()
    write(path, FIRST)
    assert (answers.left(), answers.count(FIRST)) == ([FIRST], 1)
    write(path, FIRST, SECOND)
    assert answers.left() == [FIRST, SECOND]
    assert answers.count(FIRST) == 2
    assert answers.left() == [SECOND]
    path.unlink()
    assert answers.left() == ()
    assert names_given(path) == {"answer-1": 2}


def test_a_broker_that_is_started_again_continues_to_count(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    write(path, FIRST)
    AnswersFile(path).count(FIRST)
    started_again = AnswersFile(path)
    assert started_again.left() == [FIRST]
    assert started_again.count(FIRST) == 2
    assert started_again.left() == []


@pytest.mark.parametrize("content", ["", "{", "[3]", "{}", '[{"name":"a","api":"Produce","error":"NO_SUCH_ERROR"}]'])
def test_a_file_that_cannot_be_read_arms_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "answers.json"
    path.write_text(content)
    assert AnswersFile(path).left() == ()
    assert read_answers(path) == []
