"""The page of a lesson, for `understudy lesson`: as one file, or served while the lesson runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from understudy.cli.arguments import Failed, reported_as
from understudy.cli.interruptions import Interruption, ending_on_signals, interruptible
from understudy.cli.lesson_class import ClassPlan, class_of
from understudy.cli.page_file import write_page
from understudy.cli.served_page import LOOK_EVERY_S, introduce, wait_for_end
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.http_thread import ANY_PORT
from understudy.clusters.control.server import ControlServer
from understudy.page.classroom.class_server import ClassServer
from understudy.page.export import TooLarge, lesson_page_of
from understudy.page.lessons.lesson_app import LessonApplication
from understudy.page.lessons.lesson_site import LessonSite, NotOurs, SiteLesson
from understudy.page.recorded.runs import PageRun, finished_run
from understudy.page.served.live import LiveRun
from understudy.page.served.server import PageServer
from understudy.trials.lessons.document import ONE, Lesson
from understudy.trials.lessons.in_progress import FinishedLesson, LessonInProgress
from understudy.trials.lessons.library import archive_of
from understudy.trials.lessons.prepared_lesson import PreparedLesson, prepare_lesson
from understudy.trials.lessons.recording import BadRecording, unpack
from understudy.trials.lessons.running import plan_of, run_other
from understudy.trials.lessons.side_run import RECORDED, LessonNotShown


def write_lesson_page(file: Path, prepared: PreparedLesson) -> None:
    """Write a lesson as one HTML file. Raises Failed."""
    runs = {side.side: Path(side.run) for side in prepared.sides}
    print(write_page(file, lambda: lesson_page_of(msgspec.json.encode(prepared), runs), "--page"))


def write_lesson_site(folder: Path, lessons: Sequence[Lesson]) -> str:
    """Write recorded lessons as a folder of static files, and return a line about it. Raises Failed."""
    with reported_as(Failed, NotOurs, TooLarge, BadRecording), reported_as(Failed, OSError, about="--site"):
        site = LessonSite(folder, tuple(lesson.name for lesson in lessons))
        for lesson in lessons:
            with tempfile.TemporaryDirectory(prefix="understudy-lesson-") as runs:
                recorded = unpack(lesson, archive_of(lesson), Path(runs))
                prepared = prepare_lesson(lesson, recorded, RECORDED, lesson.seed)
                sides = {side.side: Path(side.run) for side in prepared.sides}
                text = msgspec.json.encode(prepared)
                site.add(SiteLesson(lesson.name, lesson.title, lesson.question, lesson.minutes, text, sides))
        index = site.finish()
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    return f"{index}  {len(lessons)} lessons, {size:,} bytes; open it in a browser, or copy {folder} to a web server"


def serve_finished(prepared: PreparedLesson, address: tuple[str, int] | None, plan: ClassPlan | None) -> None:
    """Serve a lesson whose runs have ended, until Ctrl-C; with a class if there is a plan. Raises ClusterError."""
    one, other = (finished_run([Path(side.run)]) for side in prepared.sides)
    with (
        interruptible() as interruption,
        class_of(prepared.name, prepared.title, plan) as lead,
        _served(LessonApplication(FinishedLesson(prepared), other, lead), one, address, leads=lead) as server,
    ):
        introduce(server)
        wait_for_end(server, interruption)


def serve_on_processes(
    lesson: Lesson,
    folder: Path,
    seed: int,
    address: tuple[str, int] | None,
    note: Callable[[str], None],
    class_plan: ClassPlan | None,
) -> None:
    """Serve a lesson, run it on processes once the page asks for it, and leave its cluster to the page until Ctrl-C.

    Args:
        folder: a new or empty folder for the runs.
        note: called with a line for each step.
        class_plan: the class that takes part; None if there is none.

    Raises:
        LessonNotShown: a run did not show what the lesson is about.
        BadRecording: the recording of the other side is missing or damaged.
        CannotRun, ClusterError, OSError: as `run_lesson`.
    """
    with ending_on_signals():
        other = run_other(lesson, folder, seed=seed, note=note)
        shown = finished_run([other.folder])
    plan = plan_of(lesson, seed)
    (folder / ONE).mkdir()
    progress = LessonInProgress(lesson, plan, folder / ONE, other)
    run = LiveRun(folder / ONE, plan.run_id, progress.observe)
    with (
        interruptible() as interruption,
        class_of(lesson.name, lesson.title, class_plan) as lead,
        _served(LessonApplication(progress, shown, lead), run, address, folder / ONE, leads=lead) as server,
    ):
        introduce(server)
        if not server.takes_commands:
            progress.begin()  # a page without a token cannot ask for it
        while not progress.has_begun:
            if not server.is_running or interruption.wait(LOOK_EVERY_S):
                return
        _run_and_keep(progress, server, interruption, note)


def _run_and_keep(
    progress: LessonInProgress, server: PageServer, interruption: Interruption, note: Callable[[str], None]
) -> None:
    """Run the first side, and leave its cluster to the page until Ctrl-C."""
    with contextlib.ExitStack() as stack:
        try:
            with ending_on_signals():
                cluster = stack.enter_context(progress.run(note))
        except (LessonNotShown, ClusterError) as failure:
            progress.fails(str(failure))
            note(f"{failure}\nCtrl-C ends.")
            wait_for_end(server, interruption)
            raise
        with ControlServer(cluster, report=note):
            progress.hand_over()
            note("The run has ended. Its cluster keeps running, and takes commands from the page; Ctrl-C stops it.")
            wait_for_end(server, interruption)
            note("stopping in order; Ctrl-C again to kill")
    server.finish()


def _served(
    application: LessonApplication,
    one: PageRun,
    address: tuple[str, int] | None,
    folder: Path | None = None,
    *,
    leads: ClassServer | None,
) -> PageServer:
    return PageServer(
        one, address or ANY_PORT, folder=folder, make_application=application, has_token=leads is not None
    )
