"""The routes with which the lesson's page leads a class, without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tests.understudy.asgi import COMMAND, HOST, TOKEN, call, post
from tests.understudy.page.classroom.steps import ANSWER, PREDICT, body_of
from tests.understudy.page.lessons.test_lesson_app import Lesson
from understudy.clusters.cluster import ClusterError
from understudy.page.classroom.classroom import Refusal, Step
from understudy.page.lessons.lesson_app import LessonApplication
from understudy.page.recorded.runs import PageRun
from understudy.page.served.changes import Changes


class Lead:
    """A class that notes what the page asks for, or refuses it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.revealed: list[str] = []
        self.failure: Exception | None = None

    def document(self) -> bytes:
        self._fail()
        return b'{"phones":3}'

    def qr_code(self) -> bytes:
        return b"<svg/>"

    def show(self, step: Step) -> None:
        self._fail()
        self.steps.append(step)

    def reveal(self, name: str) -> None:
        self._fail()
        self.revealed.append(name)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def lead() -> Lead:
    return Lead()


@pytest.fixture
def served(tmp_path: Path) -> Callable[[Lead | None], ASGIApp]:
    def make(lead: Lead | None) -> ASGIApp:
        application = LessonApplication(Lesson(), PageRun("run-1", "other"), lead)
        return application(PageRun("run-1", "one"), Changes(), folder=tmp_path, hosts=frozenset({HOST}), token=TOKEN)

    return make


@pytest.fixture
def app(lead: Lead, served: Callable[[Lead | None], ASGIApp]) -> ASGIApp:
    return served(lead)


def test_the_page_takes_the_class_to_a_step_and_reveals_its_votes(app: ASGIApp, lead: Lead) -> None:
    assert post(app, "/class/step", body_of(PREDICT)).status == 204
    assert post(app, "/class/step", body_of(ANSWER)).status == 204
    assert post(app, "/class/reveal", {"question": "predict"}).status == 204
    assert (lead.steps, lead.revealed) == ([PREDICT, ANSWER], ["predict"])


def test_the_page_gets_the_counts_and_the_qr_code(app: ASGIApp) -> None:
    assert call(app, "/class.json").json == {"phones": 3}
    assert call(app, "/class.svg").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize("path", ["/class/step", "/class/reveal"])
@pytest.mark.parametrize("missing", ["authorization", "origin"])
def test_without_the_token_of_the_page_the_class_stays(app: ASGIApp, lead: Lead, path: str, missing: str) -> None:
    headers = {name: value for name, value in COMMAND.items() if name != missing}
    assert post(app, path, body_of(PREDICT), headers).status in (401, 403)
    assert (lead.steps, lead.revealed) == ([], [])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/class/step", {}),
        ("/class/step", {"step": 0, "of": 1, "kind": "predict", "headline": ""}),
        ("/class/step", {"step": 1, "of": 1, "kind": "other", "headline": ""}),
        ("/class/step", {"step": 1, "of": 1, "kind": "moment", "headline": "x" * 5000}),
        ("/class/step", {"step": 1, "of": 1, "kind": "check", "headline": "", "question": {"name": "", "text": ""}}),
        ("/class/reveal", {}),
        ("/class/reveal", {"question": 1}),
    ],
)
def test_a_body_that_is_no_step_is_refused_with_what_is_wrong(
    app: ASGIApp, lead: Lead, path: str, body: object
) -> None:
    status, error = post(app, path, body).error
    assert (status, error.startswith(f"the body of {path} cannot be used: ")) == (400, True)
    assert (lead.steps, lead.revealed) == ([], [])


def test_a_class_that_refuses_or_has_ended_is_said(app: ASGIApp, lead: Lead) -> None:
    lead.failure = Refusal(409, "the class has not been asked")
    assert post(app, "/class/reveal", {"question": "predict"}).error == (409, "the class has not been asked")
    lead.failure = ClusterError("127.0.0.1:1 is not served any more")
    assert call(app, "/class.json").error == (503, "the class has ended: 127.0.0.1:1 is not served any more")


def test_a_lesson_without_a_class_says_so(served: Callable[[Lead | None], ASGIApp]) -> None:
    app = served(None)
    assert call(app, "/class.json").json is None
    assert post(app, "/class/step", body_of(PREDICT)).status == 404
