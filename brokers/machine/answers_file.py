"""Armed answers that a JSON file names, for experiments and tests on processes.

The file is written by the one who arms them, and read again when it has changed. The name of an answer that is given is
appended to a second file, `….given`, a line for each time: each file has one writer, so that no change is lost, and a
broker that is started again continues to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.armed_answers import AnswerList, ArmedAnswer, ArmedAnswers

GIVEN = ".given"


class AnswersFile:
    """The file of armed answers; implements `ArmedAnswers`.

    A file that is missing, or cannot be read, has no answers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._given_path = path.with_name(path.name + GIVEN)
        self._read: tuple[int, int, int] | None = None
        self._answers = AnswerList()
        self._answers.given = names_given(path)

    def left(self) -> Sequence[ArmedAnswer]:
        try:
            status = self._path.stat()
        except OSError:
            return ()
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        if version != self._read:
            self._answers.armed = read_answers(self._path)
            self._read = version
        return self._answers.left() if self._answers.armed else ()

    def count(self, answer: ArmedAnswer) -> int:
        with self._given_path.open("a", encoding="utf-8") as file:
            file.write(f"{answer.name}\n")
        return self._answers.count(answer)


def read_answers(path: Path) -> list[ArmedAnswer]:
    """Return the armed answers of a file, whether given or not; those with an unknown error are left out."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[ArmedAnswer])
    except (OSError, msgspec.DecodeError):
        return []
    return [answer for answer in found if answer.error in Errors.__members__]


def names_given(path: Path) -> Counter[str]:
    """Return how often each armed answer of a file was given, by its name."""
    try:
        return Counter(path.with_name(path.name + GIVEN).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return Counter()


def _as_armed_answers(answers: AnswersFile) -> ArmedAnswers:
    """Let mypy check that a file implements `ArmedAnswers`."""
    return answers
