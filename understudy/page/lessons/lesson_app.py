"""The HTTP application of a lesson: its text, which grows with its run, beside the pages of both runs.

Below `/one/` and `/other/` are the same pages that `understudy watch` serves, for the frames of the lesson's page. All
have one origin, so one token and one guard are enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from understudy.page.classroom.teacher_routes import TeachersClass, teacher_routes
from understudy.page.recorded.runs import PageRun
from understudy.page.served.app import FILES, guarded, run_routes, unless_known
from understudy.page.served.changes import Changes
from understudy.page.served.control import of_run_folder
from understudy.page.static_files import LESSON, served_page

_SELF = "'self'"


class ServedLesson(Protocol):
    """A lesson that a page shows. Its methods are called from several threads."""

    def document(self) -> bytes:
        """Return the JSON object that the page shows now: `lesson`, `phase` and `note`."""

    def begin(self) -> None:
        """Let the lesson's run begin; harmless if it has begun."""


class LessonApplication:
    """Makes the application of a lesson; `PageServer` calls it with the run of the first side.

    Args:
        lesson: what the page shows.
        other: the run of the other side, which has ended.
        lead: the class that takes part; None if there is none.
    """

    def __init__(self, lesson: ServedLesson, other: PageRun, lead: TeachersClass | None = None) -> None:
        self._lesson = lesson
        self._other = other
        self._lead = lead

    def __call__(
        self, run: PageRun, changes: Changes, *, folder: Path | None, hosts: frozenset[str], token: str | None
    ) -> ASGIApp:
        control = of_run_folder(folder) if token is not None else None
        one = run_routes(run, changes, folder=folder, control=control, is_framed=True)
        other = run_routes(self._other, Changes(), folder=None, control=None, is_framed=True)
        routes = (
            *FILES,
            Route("/", self._index),
            Route("/lesson.json", self._document),
            Route("/begin", self._begin, methods=["POST"]),
            *teacher_routes(self._lead),
            Mount("/one", routes=one),
            Mount("/other", routes=other),
        )
        return guarded(routes, hosts=hosts, token=token)

    async def _index(self, request: Request) -> Response:
        html, policy = served_page(LESSON, frames=_SELF)
        return HTMLResponse(html, headers={"content-security-policy": policy})

    async def _document(self, request: Request) -> Response:
        # The document is computed from all records so far, which takes longer than other readers should wait.
        return unless_known(request, await run_in_threadpool(self._lesson.document), "application/json")

    async def _begin(self, request: Request) -> Response:
        self._lesson.begin()
        return Response(status_code=204)
