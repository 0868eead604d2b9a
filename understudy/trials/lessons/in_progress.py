"""`LessonInProgress`: a lesson whose page is open while it runs. It has the page's contents and notes its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.eventlog.records import Envelope
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.running import run_and_keep
from understudy.trials.lessons.document import Lesson
from understudy.trials.lessons.measurements import load_has_begun
from understudy.trials.lessons.prepared_lesson import PreparedLesson, prepare_lesson, prepare_so_far
from understudy.trials.lessons.running import side_of
from understudy.trials.lessons.side_run import PROCESSES, SideRun

READY: Final = "ready"
"""Phase before the run, which begins once the learner has predicted."""
STARTING: Final = "starting"
"""Phase in which the cluster is being started."""
RUNNING: Final = "running"
YOURS: Final = "yours"
"""Phase after the run, in which its cluster continues and takes commands."""
OVER: Final = "over"
"""Phase after both runs, in which no cluster is left."""
FAILED: Final = "failed"
"""Phase after a run that did not show what the lesson is about; the note says why."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the page of a lesson gets."""

    lesson: PreparedLesson
    phase: str
    note: str = ""


class FinishedLesson:
    """A lesson whose runs have ended, for its page."""

    def __init__(self, prepared: PreparedLesson) -> None:
        self._document = msgspec.json.encode(Document(lesson=prepared, phase=OVER))

    def document(self) -> bytes:
        """Return the JSON of a `Document`."""
        return self._document

    def begin(self) -> None:
        """Do nothing: the lesson has been run."""


class _LessonState(NamedTuple):
    """The state that the thread of the run has noted; replaced as a whole, so that other threads see no half of it."""

    phase: str
    note: str = ""
    prepared: PreparedLesson | None = None
    """The prepared lesson of the whole run; None while it continues."""


class LessonInProgress:
    """A lesson on processes.

    `document` and `begin` are called by threads of the server, `observe` by the one that follows the logs, and all else
    by the one that runs the lesson.

    Args:
        folder: the run folder of the first side.
        other: the run of the other side, which has ended.
    """

    def __init__(self, lesson: Lesson, plan: FrozenPlan, folder: Path, other: SideRun) -> None:
        self._lesson = lesson
        self._plan = plan
        self._folder = folder
        self._other = other
        self._records: list[Envelope] = []
        self._state = _LessonState(READY)
        self._written: tuple[int, PreparedLesson] | None = None
        """The number of records that were prepared last, and the lesson that was prepared from them."""
        self.has_begun = False
        """Whether the page has asked for the run."""

    # ------------------------------------------------------------------ for the page

    def document(self) -> bytes:
        """Return the JSON of a `Document`, of the records so far."""
        phase, note, prepared = self._state
        if prepared is None:
            records = tuple(self._records)
            prepared = self._so_far(records)
            if phase == STARTING and load_has_begun(records):
                phase = RUNNING
        return msgspec.json.encode(Document(lesson=prepared, phase=phase, note=note))

    def begin(self) -> None:
        """Let the run begin; harmless if it has begun."""
        self.has_begun = True

    # ------------------------------------------------------------------ for the run

    def observe(self, record: Envelope) -> None:
        """Note the next record of the run."""
        self._records.append(record)

    @contextmanager
    def run(self, note: Callable[[str], None]) -> Iterator[LocalCluster]:
        """Run the first side, and leave its cluster to the block.

        Args:
            note: is called with a line about each run.

        Raises:
            LessonNotShown, CannotRun, ClusterError, OSError: as `run_lesson`.
        """
        note(f"{self._lesson.called}: brokers and ZooKeeper as processes …")
        self._state = _LessonState(STARTING)
        with run_and_keep(self._plan, self._folder) as (verdict, cluster):
            one = side_of(verdict, self._lesson.called, PROCESSES, self._folder)
            prepared = prepare_lesson(self._lesson, (one, self._other), PROCESSES, self._plan.seed)
            self._state = _LessonState(RUNNING, prepared=prepared)
            yield cluster

    def hand_over(self) -> None:
        """Note that the cluster takes commands from the page now."""
        self._state = self._state._replace(phase=YOURS)

    def fails(self, why: str) -> None:
        """Note that the run did not show what the lesson is about."""
        self._state = self._state._replace(phase=FAILED, note=why)

    def _so_far(self, records: tuple[Envelope, ...]) -> PreparedLesson:
        if self._written is not None and self._written[0] == len(records):
            return self._written[1]
        one = SideRun(title=self._lesson.called, world=PROCESSES, folder=self._folder, records=records, facts={})
        prepared = prepare_so_far(self._lesson, (one, self._other), self._plan.seed, self._planned())
        self._written = len(records), prepared
        return prepared

    def _planned(self) -> dict[str, Any]:
        cluster = self._plan.experiment.cluster
        return {
            "session_ms": self._plan.session_ms,
            "brokers": cluster.brokers,
            "partitions": len(cluster.partitions),
        }
