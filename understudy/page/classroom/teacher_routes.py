"""The routes with which the page of a lesson leads a class. They are on the lesson's own server, behind its token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.guard import read_body
from understudy.page.classroom.classroom import Refusal, Step
from understudy.page.served.app import unless_known

_LARGEST_BODY = 64 << 10
_Result = TypeVar("_Result")
_Body = TypeVar("_Body")


class TeachersClass(Protocol):
    """A class as the lesson's page leads it. Its methods wait for the thread of the class."""

    def document(self) -> bytes:
        """Return the JSON of a `TeacherDocument`, with `address` and `code`. Raises ClusterError."""

    def qr_code(self) -> bytes:
        """Return the QR code of the class's address as SVG."""

    def show(self, step: Step) -> None:
        """Take all phones to a step. Raises Refusal, ClusterError."""

    def reveal(self, name: str) -> None:
        """Show the votes on a question. Raises Refusal, ClusterError."""


class _Reveal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /class/reveal`."""

    question: str


def teacher_routes(lead: TeachersClass | None) -> tuple[BaseRoute, ...]:
    """Return the routes of the class of a lesson.

    Args:
        lead: the class; None if the lesson has none, so that `/class.json` is `null`.
    """
    if lead is None:
        return (Route("/class.json", _no_class, methods=["GET"]),)
    teacher = _Teacher(lead)
    return (
        Route("/class.json", teacher.document, methods=["GET"]),
        Route("/class.svg", teacher.qr_code, methods=["GET"]),
        Route("/class/step", teacher.show, methods=["POST"]),
        Route("/class/reveal", teacher.reveal, methods=["POST"]),
    )


async def _no_class(request: Request) -> Response:
    return Response(b"null", media_type="application/json")


class _Teacher:
    """The functions of the routes."""

    def __init__(self, lead: TeachersClass) -> None:
        self._lead = lead

    async def document(self, request: Request) -> Response:
        return unless_known(request, await _asked(self._lead.document), "application/json")

    async def qr_code(self, request: Request) -> Response:
        return unless_known(request, self._lead.qr_code(), "image/svg+xml")

    async def show(self, request: Request) -> Response:
        step = await _decoded(request, Step)
        await _asked(lambda: self._lead.show(step))
        return Response(status_code=204)

    async def reveal(self, request: Request) -> Response:
        body = await _decoded(request, _Reveal)
        await _asked(lambda: self._lead.reveal(body.question))
        return Response(status_code=204)


async def _decoded(request: Request, kind: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(await read_body(request, _LARGEST_BODY), type=kind)
    except (msgspec.DecodeError, OverflowError) as error:
        raise HTTPException(400, f"the body of {request.url.path} cannot be used: {error}") from None


async def _asked(function: Callable[[], _Result]) -> _Result:
    """Call the class in another thread, as it answers in its own."""
    try:
        return await run_in_threadpool(function)
    except Refusal as refusal:
        raise HTTPException(refusal.status, str(refusal)) from None
    except ClusterError as error:
        raise HTTPException(503, f"the class has ended: {error}") from None
