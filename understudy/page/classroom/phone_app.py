"""The HTTP application that the phones of a class reach. It has the routes of the class, and nothing of a cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from understudy.clusters.control.guard import Guard, http_error, read_body, refused
from understudy.page.classroom.classroom import Classroom, Refusal
from understudy.page.served.app import unless_known
from understudy.page.served.changes import Changes
from understudy.page.served.event_stream import HEARTBEAT_S, Readers, ServerSentEvents
from understudy.page.static_files import FOLDER as OF_PAGES
from understudy.page.static_files import TYPES

LARGEST_BODY: Final = 1024
"""Maximum size in bytes of the body of a phone's request."""
MOST_STREAMS: Final = 400
"""Maximum number of event streams that are open at a time."""
MOST_STREAMS_OF_A_PHONE: Final = 3
COOKIE_LASTS_S: Final = 12 * 3600
"""Time in seconds after which a browser forgets the secret of a phone."""
_FOLDER: Final = Path(__file__).with_name("static")
FILES: Final = {
    "phone.js": _FOLDER,
    "phone.css": _FOLDER,
    "dom.js": OF_PAGES,
    "words.js": OF_PAGES,
    "page.css": OF_PAGES,
    "dark.css": OF_PAGES,
}
"""The folders of the files that the phones' page loads, by their names."""
_BUSY_PHONE: Final = f"this phone follows the class in {MOST_STREAMS_OF_A_PHONE} tabs already; close one"
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
_POLICY_OF_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class _Vote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /vote`."""

    question: str
    answer: float


def phone_application(room: Classroom, changes: Changes, *, hosts: frozenset[str], code: str, cookie: str) -> ASGIApp:
    """Return the application of one class.

    Args:
        changes: is notified when something of what all phones show has changed.
        hosts: the values of the header Host that are accepted.
        code: what joining and voting need, as `Authorization: Bearer CODE`.
        cookie: the name of the cookie with the secret of a phone.
    """
    phones = _Phones(room, changes, cookie)
    routes = (
        Route("/", phones.index, methods=["GET"]),
        Route("/favicon.ico", phones.no_icon, methods=["GET"]),
        *(Route(f"/{name}", phones.file, methods=["GET"]) for name in FILES),
        Route("/join", phones.join, methods=["POST"]),
        Route("/now", phones.now, methods=["GET"]),
        Route("/events", phones.events, methods=["GET"]),
        Route("/vote", phones.vote, methods=["POST"]),
        Route("/{path:path}", phones.nothing, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    )
    handlers = {HTTPException: http_error, Refusal: _refusal}
    return Guard(
        Starlette(routes=routes, exception_handlers=handlers),  # type: ignore[arg-type]  # starlette's handlers take any Exception
        hosts=hosts,
        token=code,
        has_page=True,
        policy=_POLICY,
        token_hint="scan the QR code of the class, or type its code",
    )


def _refusal(request: Request, refusal: Refusal) -> Response:
    return refused(refusal.status, str(refusal))


class _Phones:
    """The functions of the routes."""

    def __init__(self, room: Classroom, changes: Changes, cookie: str) -> None:
        self._room = room
        self._changes = changes
        self._cookie = cookie
        self._readers = Readers(MOST_STREAMS, f"{MOST_STREAMS} pages follow this class already; close one")
        self._of_phone: dict[str, Readers] = {}

    async def index(self, request: Request) -> Response:
        html = (_FOLDER / "phone.html").read_text(encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": _POLICY_OF_PAGE})

    async def no_icon(self, request: Request) -> Response:
        return Response(status_code=204)

    async def file(self, request: Request) -> Response:
        path = FILES[request.url.path[1:]] / request.url.path[1:]
        return unless_known(request, path.read_bytes(), TYPES[path.suffix])

    async def join(self, request: Request) -> Response:
        await read_body(request, LARGEST_BODY)
        phone = self._room.join(request.cookies.get(self._cookie))
        self._of_phone.setdefault(phone, Readers(MOST_STREAMS_OF_A_PHONE, _BUSY_PHONE))
        answer = self._document(phone)
        answer.set_cookie(self._cookie, phone, max_age=COOKIE_LASTS_S, httponly=True, samesite="strict")
        return answer

    async def now(self, request: Request) -> Response:
        return self._document(self._phone(request))

    async def vote(self, request: Request) -> Response:
        phone = self._phone(request)
        try:
            vote = msgspec.json.decode(await read_body(request, LARGEST_BODY), type=_Vote)
        except (msgspec.DecodeError, OverflowError) as error:
            raise HTTPException(400, f'a vote is {{"question": NAME, "answer": NUMBER}}: {error}') from None
        self._room.vote(phone, vote.question, vote.answer)
        return self._document(phone)

    async def events(self, request: Request) -> ServerSentEvents:
        if request.method != "GET":
            raise HTTPException(405, "events can only be read by GET")
        phone = self._phone(request)
        return ServerSentEvents(self._documents(phone), self._of_phone[phone], self._readers)

    async def nothing(self, request: Request) -> Response:
        path = request.path_params["path"][:80]
        raise HTTPException(404, f"there is no {request.method} /{path} here: this address has a class, and no cluster")

    def _phone(self, request: Request) -> str:
        return self._room.known(request.cookies.get(self._cookie))

    def _document(self, phone: str) -> Response:
        return Response(msgspec.json.encode(self._room.phone_document(phone)), media_type="application/json")

    async def _documents(self, phone: str) -> AsyncGenerator[bytes, None]:
        seen = -1
        while not self._changes.are_over:
            if seen != self._room.version:
                seen = self._room.version
                yield b"data: %b\n\n" % msgspec.json.encode(self._room.phone_document(phone))
            elif not await self._changes.wait(HEARTBEAT_S):
                yield b": the same step\n\n"
