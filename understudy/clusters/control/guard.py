"""`Guard`: refuses requests that a web page or another machine could send, and those without the token.

A page in a browser can send requests to this machine: under its own origin, which the header Origin then names, or
under its own host name, which it has let resolve to 127.0.0.1 (DNS rebinding), which the header Host then names. An
address that is not loopback has any number of names; there every request needs the token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_BODY: Final = 1 << 20
_READING = ("GET", "HEAD")
READ_TIMEOUT_S: Final = 10.0
"""Time within which the body of a request has to arrive."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class Guard:
    """Wraps an application.

    Args:
        hosts: the values of the header Host that are accepted; None if all are, and every request needs the token.
        token: the token that a request must carry if it changes something, as `Authorization: Bearer TOKEN`; None if
            no request may change anything.
        has_page: whether the application serves a page that sends requests. Then a request that changes something
            must come from this page; otherwise requests of all pages are refused.
        policy: the Content-Security-Policy of every answer that has none.
        token_hint: where the token is found, for the message that it is missing.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        hosts: frozenset[str] | None,
        token: str | None,
        has_page: bool = False,
        policy: str = _POLICY,
        token_hint: str = "see control.json",
    ) -> None:
        self._application = application
        self._hosts = hosts
        self._origins = frozenset(f"http://{host}" for host in hosts or ()) if has_page else None
        self._credentials = None if token is None else f"Bearer {token}".encode("latin-1")
        self._unauthorized = f"the header `Authorization: Bearer TOKEN` is missing or wrong; {token_hint}"
        self._headers = (
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
            (b"content-security-policy", policy.encode("latin-1")),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is None:
            await self._application(scope, receive, self._with_headers(send))
        else:
            await refusal(scope, receive, self._with_headers(send))

    def _refusal(self, method: str, headers: Headers) -> JSONResponse | None:
        return (
            self._refusal_of_host(headers)
            or self._refusal_of_origin(method, headers)
            or self._refusal_of_change(method, headers)
        )

    def _refusal_of_host(self, headers: Headers) -> JSONResponse | None:
        hosts = headers.getlist("host")
        if self._hosts is None or (len(hosts) == 1 and hosts[0].lower() in self._hosts):
            return None
        return refused(403, f"the header Host must be one of {', '.join(sorted(self._hosts))}")

    def _refusal_of_origin(self, method: str, headers: Headers) -> JSONResponse | None:
        origins = headers.getlist("origin")
        if self._origins is None:
            return refused(403, "requests of web pages are refused: the header Origin is set") if origins else None
        if (origins or method not in _READING) and (len(origins) != 1 or origins[0].lower() not in self._origins):
            return refused(403, f"the header Origin must be one of {', '.join(sorted(self._origins))}")
        return None

    def _refusal_of_change(self, method: str, headers: Headers) -> JSONResponse | None:
        if method not in _READING and self._credentials is None:
            return refused(403, "this address only shows the run; commands are accepted on loopback")
        if (method not in _READING or self._hosts is None) and not self._is_authorized(headers):
            response = refused(401, self._unauthorized)
            response.headers["www-authenticate"] = "Bearer"
            return response
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return refused(413, f"the body of a request may have {LARGEST_BODY} bytes")
        return None

    def _is_authorized(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        assert self._credentials is not None
        return len(given) == 1 and hmac.compare_digest(given[0].encode("latin-1", "replace"), self._credentials)

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {name for name, _ in own}
                message = {**message, "headers": own + [each for each in self._headers if each[0] not in names]}
            await send(message)

        return send_with_headers


def refused(status: int, message: str, **further: object) -> JSONResponse:
    """Return the answer to a request that is refused: JSON with the key `error`."""
    return JSONResponse({"error": message, **further}, status_code=status)


async def read_body(request: Request, most_bytes: int = LARGEST_BODY) -> bytes:
    """Return the body of a request. Raises HTTPException if it is too large or takes too long."""
    found = bytearray()
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most_bytes:
                    raise HTTPException(413, f"the body of a request may have {most_bytes} bytes")
    except TimeoutError:
        raise HTTPException(504, f"the body of the request has not arrived within {READ_TIMEOUT_S:g} s") from None
    return bytes(found)


def http_error(request: Request, error: HTTPException) -> JSONResponse:
    """Answer with the error of a route, as JSON."""
    return refused(error.status_code, error.detail)
