"""Our assignors beside Kafka's: random groups, and the same assignment from both.

`python -m tests.interop.test_assignors` records Kafka's answers for the tests that run without Kafka.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devtools.judges.java_program import answers_of
from tests.understudy.clusters.clients.assignor_cases import ANSWERS, Case, random_case, show
from understudy.clusters.processes.kafka_jars import NotFetched

CASES = 2_000
RECORDED = 160


def ask_kafka(cases: Sequence[Case], folder: Path) -> list[str]:
    """Return what Kafka's assignors answer to the cases; raises NotFetched if Kafka or a JDK is missing."""
    return answers_of("assignors/Assignors.java", (case.line() for case in cases), folder)


def draw_cases(seed: int, count: int) -> list[Case]:
    draw = random.Random(seed)
    return [random_case(draw) for _ in range(count)]


@pytest.mark.interop
def test_assignments_are_those_of_kafka(tmp_path: Path) -> None:
    cases = draw_cases(2, CASES)
    try:
        answers = ask_kafka(cases, tmp_path)
    except NotFetched as why:
        pytest.skip(str(why))
    assert len(answers) == CASES
    assert [case.line() for case, answer in zip(cases, answers, strict=True) if show(case.answer()) != answer] == []


def record() -> None:
    """Write the answers of Kafka that the tests without Kafka compare with."""
    cases = draw_cases(6, RECORDED)
    with TemporaryDirectory() as folder:
        answers = ask_kafka(cases, Path(folder))
    lines = [f"{case.line()}\n{answer}\n" for case, answer in zip(cases, answers, strict=True)]
    ANSWERS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    record()
