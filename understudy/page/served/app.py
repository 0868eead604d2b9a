"""The HTTP application of the page: its files, the records of one run, and commands, passed to the control port."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.control_file import NoControlPort
from understudy.clusters.control.guard import Guard, http_error, read_body, refused
from understudy.clusters.verb_table import POINT_ACTIONS, TARGETS, VERBS
from understudy.controller.points import POINTS
from understudy.page.recorded.runs import PageRun
from understudy.page.served.changes import Changes
from understudy.page.served.control import PageControl, of_run_folder
from understudy.page.served.event_stream import HEARTBEAT_S, EventStream, Readers
from understudy.page.static_files import TYPES, read_static, served_page

MOST_READERS: Final = 24
"""Maximum number of event streams that are open at a time. Each is a connection that stays open."""
MOST_COMMANDS: Final = 8
"""Maximum number of commands that are under way at a time. Each is a thread that waits for the control port."""
COMMANDS: Final = frozenset(("/topics", "/elections", "/produce", *(f"/verbs/{verb}" for verb in VERBS)))
"""The paths of the control port that the page may use."""
_COMPRESSED: Final = "gzip"
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of answers other than pages."""


def application(
    run: PageRun,
    changes: Changes,
    *,
    folder: Path | None,
    hosts: frozenset[str],
    token: str | None,
    control: PageControl | None = None,
) -> ASGIApp:
    """Return the application for one run.

    Args:
        changes: is notified when the run has new records or has ended.
        folder: the run folder; None if the page has only log files.
        hosts: the values of the header Host that are accepted.
        token: what a command must carry; None if commands are refused.
        control: the way to the control port for commands; None for the port that the run folder names.
    """
    control = control or of_run_folder(folder)
    routes = (*FILES, *run_routes(run, changes, folder=folder, control=None if token is None else control))
    return guarded(routes, hosts=hosts, token=token)


def guarded(routes: Sequence[BaseRoute], *, hosts: frozenset[str], token: str | None) -> ASGIApp:
    """Return the application with these routes, behind the guard that every page has."""
    return Guard(
        Starlette(routes=routes, exception_handlers={HTTPException: http_error}),  # type: ignore[dict-item]  # starlette's handlers take any Exception
        hosts=hosts,
        token=token,
        has_page=True,
        policy=_POLICY,
        token_hint="open the address that the command has printed",
    )


def run_routes(
    run: PageRun, changes: Changes, *, folder: Path | None, control: PageControl | None, is_framed: bool = False
) -> tuple[BaseRoute, ...]:
    """Return the routes of the page of one run, without the routes of its files.

    Args:
        folder: the run folder; None if the page has only log files.
        control: the way to the control port for commands; None if commands are refused.
        is_framed: whether another page of this server shows this one in a frame.
    """
    page = _Page(run, changes, folder, control, is_framed=is_framed)
    return (
        Route("/", page.index),
        Route("/run.json", page.facts),
        Route("/chunks/{number:int}", page.chunk),
        Route("/events", page.events),
        Route("/control/{path:path}", page.command, methods=["POST"]),
    )


async def _no_icon(request: Request) -> Response:
    """Answer a browser's own request for an icon; without an answer its console shows an error."""
    return Response(status_code=204)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = read_static(name)
    if content is None:
        raise HTTPException(404, f"the page has no file {name!r}")
    return unless_known(request, content, TYPES[Path(name).suffix])


FILES: Final = (Route("/favicon.ico", _no_icon), Route("/static/{name}", _static))
"""The routes of the files that every page loads."""


def described_verbs(names: Collection[str]) -> list[dict[str, Any]]:
    """Return verbs as `run.json` lists them."""
    return [
        {"name": name, "meaning": verb.meaning, "undo": verb.undo, "on_zookeeper": verb.on_zookeeper}
        for name, verb in VERBS.items()
        if name in names
    ]


class _Page:
    """The functions of the routes."""

    def __init__(
        self, run: PageRun, changes: Changes, folder: Path | None, control: PageControl | None, *, is_framed: bool
    ) -> None:
        self._run = run
        self._changes = changes
        self._folder = folder
        self._control = control
        self._is_framed = is_framed
        self._readers = Readers(MOST_READERS, f"{MOST_READERS} pages follow this run already; close one")
        self._commands = 0

    async def index(self, request: Request) -> Response:
        html, policy = served_page(ancestors="'self'" if self._is_framed else "'none'")
        return HTMLResponse(html, headers={"content-security-policy": policy})

    async def facts(self, request: Request) -> Response:
        return JSONResponse(
            {
                **self._run.facts(self._folder),
                "can_command": self._control_port() is not None,
                "verbs": described_verbs(self._control.verbs if self._control is not None else ()),
                "targets": dict(TARGETS),
                "points": list(POINTS),
                "point_actions": list(POINT_ACTIONS),
            }
        )

    async def chunk(self, request: Request) -> Response:
        number = request.path_params["number"]
        chunks = self._run.chunks
        while number <= chunks.full and self._has_to_wait(number):
            await self._changes.wait(HEARTBEAT_S)
        try:
            content = chunks.chunk(number)
        except IndexError as error:
            raise HTTPException(404, str(error)) from None
        records = str(chunks.records_in(number))
        return unless_known(
            request, content, "application/json", {"content-encoding": _COMPRESSED, "understudy-records": records}
        )

    def _has_to_wait(self, number: int) -> bool:
        return self._run.is_behind and not self._changes.are_over and not self._run.chunks.is_compressed(number)

    async def events(self, request: Request) -> EventStream | Response:
        if request.method != "GET":
            raise HTTPException(405, "events can only be read by GET")
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > 15:
            raise HTTPException(400, f"{after!r} is no number of records")
        if int(after) > len(self._run.chunks):
            # For example a page that was open before the server was started again with another run.
            raise HTTPException(409, f"this run has {len(self._run.chunks)} records, not {after}; reload the page")
        return EventStream(self._run, self._changes, self._readers, int(after))

    async def command(self, request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        if path not in COMMANDS:
            raise HTTPException(404, f"there is no command {path}; the commands are {', '.join(sorted(COMMANDS))}")
        control = self._control_port()
        if control is None:
            return refused(409, "this run takes no commands: its cluster has ended, or has no control port")
        try:
            body = msgspec.json.decode(await read_body(request) or b"{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise HTTPException(400, f"the body of the request is not a JSON object: {error}") from None
        if self._commands >= MOST_COMMANDS:
            return refused(503, f"{MOST_COMMANDS} commands are under way; wait for one")
        self._commands += 1
        try:
            return JSONResponse(await run_in_threadpool(control.post, path, body))
        except ControlRefused as error:
            return JSONResponse(dict(error.answer), status_code=error.status)
        except NoControlPort as error:
            return refused(503, str(error))
        finally:
            self._commands -= 1

    def _control_port(self) -> ControlClient | None:
        """The control port of the cluster; None if there is none now, or commands are refused."""
        return self._control.find() if self._control is not None and self._run.is_live else None


def unless_known(request: Request, content: bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    """Return the content, or 304 if the browser has it. It asks each time, as another run may have the address."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    found = {**(headers or {}), "etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=found)
    return Response(content, media_type=kind, headers=found)
