"""The application of a lesson without a server: its text, the pages of both runs, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tests.foundation.eventlog.lines import Logs
from tests.understudy.asgi import COMMAND, HOST, TOKEN, call, post
from understudy.foundation.eventlog.records import StepReached
from understudy.history.reading.reader import read_lines
from understudy.page.lessons.lesson_app import LessonApplication
from understudy.page.recorded.runs import PageRun
from understudy.page.served.changes import Changes
from understudy.page.served.live import LiveRun

READS = ("/", "/lesson.json", "/static/lesson.js", "/one/", "/one/run.json", "/other/run.json", "/other/chunks/0")


class Lesson:
    """A lesson that counts what its page asks for."""

    def __init__(self) -> None:
        self.begun = 0

    def document(self) -> bytes:
        return b'{"phase":"ready"}'

    def begin(self) -> None:
        self.begun += 1


@pytest.fixture
def lesson() -> Lesson:
    return Lesson()


def filled(run: PageRun, count: int) -> PageRun:
    logs = Logs()
    for number in range(count):
        logs.at(1000 + number, "broker-1", StepReached(step=f"step {number}"))
    run.add(read_lines(logs.lines).records)
    return run


def served(lesson: Lesson, tmp_path: Path, token: str | None = TOKEN) -> ASGIApp:
    one, other = filled(LiveRun(tmp_path, "run-1"), 3), filled(PageRun("run-1", "other"), 5)
    make = LessonApplication(lesson, other)
    return make(one, Changes(), folder=tmp_path, hosts=frozenset({HOST}), token=token)


@pytest.fixture
def app(lesson: Lesson, tmp_path: Path) -> ASGIApp:
    return served(lesson, tmp_path)


def test_each_run_has_its_page(app: ASGIApp) -> None:
    one, other = (call(app, f"/{side}/run.json").json for side in ("one", "other"))
    assert (one["records"], one["is_live"]) == (3, True)
    assert (other["records"], other["is_live"], other["can_command"]) == (5, False, False)
    assert call(app, "/lesson.json").json == {"phase": "ready"}


def test_the_lesson_may_frame_its_own_pages_and_nothing_else(app: ASGIApp) -> None:
    def policy(path: str) -> dict[str, str]:
        headers = call(app, path).headers
        return dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))

    assert (policy("/")["frame-src"], policy("/")["frame-ancestors"]) == ("'self'", "'none'")
    assert (policy("/one/")["frame-src"], policy("/one/")["frame-ancestors"]) == ("'none'", "'self'")
    assert policy("/lesson.json") == {"default-src": "'none'", "frame-ancestors": "'none'"}


def test_the_run_begins_when_the_page_asks(app: ASGIApp, lesson: Lesson) -> None:
    assert post(app, "/begin", {}).status == 204
    assert lesson.begun == 1


@pytest.mark.parametrize("missing", ["authorization", "origin"])
def test_another_page_cannot_begin_it(app: ASGIApp, lesson: Lesson, missing: str) -> None:
    headers = {name: value for name, value in COMMAND.items() if name != missing}
    assert post(app, "/begin", {}, headers).status in (401, 403)
    assert post(app, "/begin", {}, {**COMMAND, "origin": "http://evil.example"}).status == 403
    assert call(app, "/begin", COMMAND).status == 405
    assert lesson.begun == 0


@pytest.mark.parametrize("path", READS)
def test_another_host_is_refused(app: ASGIApp, path: str) -> None:
    assert call(app, path).status == 200
    assert call(app, path, {"host": "evil.example"}).status == 403


def test_without_a_token_nothing_is_commanded(lesson: Lesson, tmp_path: Path) -> None:
    app = served(lesson, tmp_path, token=None)
    for path in ("/begin", "/one/control/verbs/kill"):
        assert post(app, path, {"target": "1"}).status == 403
    assert lesson.begun == 0


def test_the_other_side_takes_no_commands(app: ASGIApp) -> None:
    assert post(app, "/other/control/verbs/kill", {"target": "1"}).status == 409
