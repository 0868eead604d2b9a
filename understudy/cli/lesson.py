"""`understudy lesson`: go through a lesson about the controller, with a prediction and a run beside it.

Without NAME it lists the lessons. NAME is a name or a number from that list, or a file of your own. `new NAME` writes a
commented file, `check FILE` finds mistakes in one, `schema` prints the JSON Schema of lesson files. `--site DIR` writes
all recorded lessons, or those that are named, as a folder for a web server. By default the first side runs on real
processes; the other side runs in the simulator, or is a recording if the lesson has one. The exit code is 3 if a
lesson's file cannot be used, and 2 if a run did not show what the lesson is about.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, accept_old_words, host_and_any_port, os_error, reported_as
from understudy.cli.experiment import RUNS, BadFile, ExperimentNotStarted
from understudy.cli.interruptions import ending_on_signals
from understudy.cli.lesson_class import ClassPlan, class_address
from understudy.cli.lesson_page import serve_finished, serve_on_processes, write_lesson_page, write_lesson_site
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.http_thread import is_loopback
from understudy.clusters.java import JavaNotFound
from understudy.clusters.problems import BadExperiment
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.history.lake.errors import LakeError
from understudy.trials.experiments.running import CannotRun
from understudy.trials.lessons.document import Lesson
from understudy.trials.lessons.lesson_text import show_as_text
from understudy.trials.lessons.library import SUFFIX, archive_of, find, names
from understudy.trials.lessons.prepared_lesson import PreparedLesson, prepare_lesson
from understudy.trials.lessons.reading import json_schema
from understudy.trials.lessons.recording import BadRecording, pack, unpack
from understudy.trials.lessons.running import run_lesson
from understudy.trials.lessons.side_run import PROCESSES, RECORDED, SIMULATED, LessonNotShown, SideRun
from understudy.trials.lessons.sweeping import PYTHON, MeasureSweeps, SweepTable, measure_in_python
from understudy.trials.lessons.template import template

LAKE = "lake"
"""The folder of the lake that a lesson with sweeps leaves beside its runs."""
_ACTIONS = ("new", "check")
_NOT_OF_A_SITE = (
    "page", "json", "answers", "record", "other", "watch", "simulated", "classroom", "dir", "port", "seed",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="NAME", nargs="*", help="a lesson; or `new NAME`, `check FILE` or `schema`")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--simulated", action="store_true", help="run in the simulator: the same every time")
    where.add_argument("--recorded", action="store_true", help="show the runs that come with Understudy")
    where.add_argument("--record", action="store_true", help="simulate, and keep the runs for --recorded")
    parser.add_argument(
        "--other",
        type=Path,
        metavar="RUN",
        help="with --record, for a lesson whose other side is not simulated: the folder of the run that becomes its "
        "recording (default the recording that it has)",
    )
    parser.add_argument("--answers", type=Path, metavar="FILE", help="take the answers from a file, one in a line")
    parser.add_argument("--seed", type=int, metavar="N", help="what chance is drawn from (default the lesson's)")
    parser.add_argument(
        "--json", action="store_true", help="print the lesson's document; its runs stay in ./runs or --dir"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the lesson as one HTML file, to go through in a browser"
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="DIR",
        help="write the recorded lessons, all or those that are named, as a folder with an index for a web server or "
        "from disk",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="serve the lesson as a page that follows the run, until Ctrl-C; on processes it begins after the "
        "prediction, and leaves its cluster to the page",
    )
    parser.add_argument(
        "--port",
        type=host_and_any_port,
        metavar="HOST:PORT",
        help="the address of the page of --watch (default any free port of 127.0.0.1). On another address than "
        "loopback it takes no commands, and the run begins at once",
    )
    parser.add_argument(
        "--class",
        dest="classroom",
        type=class_address,
        metavar="ADDRESS[:PORT]",
        help="serve the lesson as --watch does, and let a class answer its questions on phones: at this address of "
        "the local network, with a QR code here and on the page. Ctrl-C keeps the counts",
    )
    folder = parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="keep the run folders here; without it they are removed"
    )
    accept_old_words(parser, folder, "-o", "--output")


def run(options: argparse.Namespace) -> int:
    words: Sequence[str] = options.words
    if options.site is not None:
        return _write_site(options, words or names())
    if not words:
        return _list()
    if words == ["schema"]:
        print(json.dumps(json_schema(), indent=2))
        return 0
    if words[0] in _ACTIONS:
        if len(words) != 2:
            raise BadInput(f"lesson {words[0]} takes one name, for example understudy lesson {words[0]} mine.yaml")
        return _new(words[1]) if words[0] == "new" else _check(words[1])
    if len(words) > 1:
        raise BadInput(f"{' '.join(words)!r}: one lesson at a time; `understudy lesson` lists them")
    return _show(options, _read(words[0]))


def _list() -> int:
    lessons = [find(name) for name in names()]
    width = max((len(each.name) for each in lessons), default=0)
    for each in lessons:
        print(f"{each.number:>3}  {each.name:<{width}}  {each.minutes:>2} min  {each.question.strip()}")
    return 0


def _write_site(options: argparse.Namespace, words: Sequence[str]) -> int:
    for name in _NOT_OF_A_SITE:
        if getattr(options, name) not in (None, False):
            option = "class" if name == "classroom" else name
            raise BadInput(f"--{option} and --site: a site has the recorded runs of its lessons; leave --{option} out")
    lessons = list({each.name: each for each in map(_read, words)}.values())
    for each in lessons:
        if not archive_of(each).exists():
            raise BadInput(f"{each.name}: it has no recorded runs, which a site needs; name lessons of Understudy")
    print(write_lesson_site(options.site, lessons))
    return 0


def _new(word: str) -> int:
    name = word.removesuffix(SUFFIX)
    file = Path(f"{name}{SUFFIX}")
    with reported_as(Failed, OSError), file.open("x", encoding="utf-8") as opened:
        opened.write(template(Path(name).name))
    print(f"{file}: now `understudy lesson {shlex.quote(str(file))} --simulated`")
    return 0


def _check(word: str) -> int:
    lesson = _read(word)
    print(f"{word}: {lesson.title}: {len(lesson.stops)} stops, nothing wrong; run it with --simulated")
    return 0


@reported_as(BadFile, BadExperiment)
def _read(word: str) -> Lesson:
    return find(word)


@reported_as(BadInput, CannotRun)
@reported_as(
    ExperimentNotStarted,
    LessonNotShown,
    BadRecording,
    ClusterError,
    JavaNotFound,
    ZooKeeperNotStarted,
    OSError,
    *NO_ANSWER,
)
def _show(options: argparse.Namespace, lesson: Lesson) -> int:
    if options.recorded and options.seed is not None:
        raise BadInput(f"--seed {options.seed}: recorded runs have the seed {lesson.seed}; give --simulated with it")
    if options.other is not None and not (options.record and lesson.other.recording):
        raise BadInput(
            f"--other {options.other}: it is for --record, and a lesson whose other side has the key `recording`; "
            "leave it out"
        )
    options.watch = options.watch or options.classroom is not None
    _check_watch(options)
    answers = _answers(options.answers)
    seed = lesson.seed if options.seed is None else options.seed
    with _folder(options.dir or (_kept(lesson) if options.json else None)) as folder:
        world = _world(options, lesson)
        if options.watch and world == PROCESSES:
            serve_on_processes(lesson, folder, seed, options.port, _note, _class_plan(options, lesson))
            return 0
        # A recording does not say what computed its numbers, and is made without waiting for Spark.
        runs = _runs(lesson, world, folder, seed, in_spark=not options.record, taken=options.other)
        _deliver(options, lesson, runs, prepare_lesson(lesson, runs, world, seed), answers, folder)
    return 0


def _check_watch(options: argparse.Namespace) -> None:
    """Raise BadInput if options contradict --watch, or need it."""
    if options.port is not None and not options.watch:
        raise BadInput("--port is the address of the page of --watch; give --watch with it")
    if options.classroom is not None and options.port is not None and not is_loopback(options.port[0]):
        raise BadInput(
            f"--port {options.port[0]} with --class: the page that leads a class has to stay on this machine; leave "
            "--port out, or give 127.0.0.1:PORT"
        )
    for name in ("page", "json", "answers", "record"):
        if options.watch and getattr(options, name):
            raise BadInput(f"--{name} and --watch: a lesson is either written or served; leave one of them out")


def _deliver(
    options: argparse.Namespace,
    lesson: Lesson,
    runs: tuple[SideRun, SideRun],
    prepared: PreparedLesson,
    answers: list[str] | None,
    folder: Path,
) -> None:
    """Record, write, serve or print a lesson whose runs have ended."""
    if options.record:
        archive = archive_of(lesson)
        pack(lesson, folder, archive)
        print(f"{archive.name}: {archive.stat().st_size:,} bytes", flush=True)
        _print_kept(options, prepared)
    elif options.page is not None:
        write_lesson_page(options.page, prepared)
    elif options.watch:
        serve_finished(prepared, options.port, _class_plan(options, lesson))
    elif options.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(prepared), indent=2) + b"\n")
    else:
        interactive = answers is None and sys.stdin.isatty() and sys.stdout.isatty()
        show_as_text(prepared, runs, _Asker(answers, interactive), partial(print, flush=True), pauses=interactive)


def _print_kept(options: argparse.Namespace, prepared: PreparedLesson) -> None:
    """Print the origin of a side that was not simulated, and whether its recording is a new one."""
    for side in prepared.sides:
        if (made := side.recording) is not None:
            what = "is kept" if options.other is None else f"is now {options.other}"
            print(f"{side.title}: the recording {what}: {made.software}, of {made.date}, made by {made.command}")


def _world(options: argparse.Namespace, lesson: Lesson) -> str:
    """Return how the first side is run: `RECORDED`, `SIMULATED` or `PROCESSES`."""
    if options.recorded:
        return RECORDED
    return SIMULATED if options.simulated or options.record or lesson.sweep is not None else PROCESSES


def _runs(
    lesson: Lesson, world: str, folder: Path, seed: int, *, in_spark: bool, taken: Path | None
) -> tuple[SideRun, SideRun]:
    if world == RECORDED:
        return unpack(lesson, archive_of(lesson), folder)
    with ending_on_signals():
        measuring = _measuring(folder, in_spark)
        return run_lesson(lesson, world, folder, seed=seed, note=_note, measure_sweeps=measuring, taken=taken)


def _measuring(folder: Path, in_spark: bool) -> MeasureSweeps:
    """Return a function that computes the tables of sweeps: in Spark, or in Python with a note if Spark cannot run."""

    def measure(sweeps: Sequence[Path]) -> list[SweepTable]:
        try:
            return _measured_in_spark(sweeps, folder / LAKE)
        except _NoSpark as reason:
            _note(f"no Spark, so the table is computed in Python: {reason}")
            by = f"{PYTHON}, which gives the numbers of Spark, because there is no Spark: {reason}"
            return [msgspec.structs.replace(each, measured_by=by) for each in measure_in_python(sweeps)]

    return measure if in_spark else measure_in_python


class _NoSpark(Exception):
    """Spark cannot run here. The message says why."""


def _measured_in_spark(sweeps: Sequence[Path], lake: Path) -> list[SweepTable]:
    try:
        from understudy.spark.failures import SparkFailed  # noqa: PLC0415  the extra `spark`
        from understudy.spark.settings import SparkSettings  # noqa: PLC0415  the extra `spark`
        from understudy.spark.sweep_job import measure_in_spark  # noqa: PLC0415  the extra `spark`
    except ModuleNotFoundError as error:
        raise _NoSpark(f"the package {error.name} is not installed") from None
    try:
        settings = SparkSettings.chosen()
        with Activity(sys.stderr, plain_lines=False) as activity:
            return measure_in_spark(sweeps, lake, settings, activity.step)
    except (JavaNotFound, SparkFailed, LakeError) as error:
        raise _NoSpark(str(error)) from None


def _kept(lesson: Lesson, what: str = "lesson") -> Path:
    """Return the folder for something that has to stay: runs that a document names, or the counts of a class."""
    return RUNS / f"{what}-{lesson.name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


def _class_plan(options: argparse.Namespace, lesson: Lesson) -> ClassPlan | None:
    if options.classroom is None:
        return None
    return ClassPlan(options.classroom, options.dir or _kept(lesson, "class"))


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Yield the folder for the runs: `kept`, or a temporary one."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="understudy-lesson-") as folder:
            yield Path(folder)
        return
    if kept.exists() and (not kept.is_dir() or any(kept.iterdir())):
        raise BadInput(f"{kept} is not empty; give a new folder with --dir")
    yield kept


def _answers(file: Path | None) -> list[str] | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = os_error(error) if isinstance(error, OSError) else f"{file}: it is not UTF-8"
        raise BadInput(f"--answers {why}; give a text file with one answer in a line") from None


class _Asker:
    """Asks the learner at the terminal, or takes the next answer of a file; elsewhere there is no answer."""

    def __init__(self, answers: list[str] | None, interactive: bool) -> None:
        self._answers = iter(answers or ())
        self._interactive = interactive

    def __call__(self, prompt: str) -> str:
        if self._interactive:
            try:
                return input(prompt)
            except EOFError:
                return ""
        answer = next(self._answers, "")
        if answer:
            print(f"{prompt}{answer}")
        return answer


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
