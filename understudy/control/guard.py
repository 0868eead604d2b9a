"""`Guard`: refuses requests that a web page or another machine could send, and those without the token.

A page in a browser can send requests to this machine: under its own origin, which the header Origin then names, or
under a host name of its own that it has let resolve to 127.0.0.1 (DNS rebinding), which the header Host then names.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_BODY: Final = 1 << 20
_READING = ("GET", "HEAD")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)


class Guard:
    """Wraps an application.

    Args:
        hosts: the values of the header Host that are accepted.
        token: what a request that changes something must carry, as `Authorization: Bearer TOKEN`.
    """

    def __init__(self, application: ASGIApp, *, hosts: frozenset[str], token: str) -> None:
        self._application = application
        self._hosts = hosts
        self._credentials = f"Bearer {token}".encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is None:
            await self._application(scope, receive, _with_headers(send))
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refusal(self, method: str, headers: Headers) -> JSONResponse | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return refused(403, f"the header Host must be one of {', '.join(sorted(self._hosts))}")
        if "origin" in headers:
            return refused(403, "requests of web pages are refused: the header Origin is set")
        if method not in _READING and not self._is_authorized(headers):
            response = refused(401, "the header `Authorization: Bearer TOKEN` is missing or wrong; see control.json")
            response.headers["www-authenticate"] = "Bearer"
            return response
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return refused(413, f"the body of a request may have {LARGEST_BODY} bytes")
        return None

    def _is_authorized(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        return len(given) == 1 and hmac.compare_digest(given[0].encode("latin-1", "replace"), self._credentials)


def refused(status: int, message: str, **further: object) -> JSONResponse:
    """Return the answer to a request that is refused: JSON with the key `error`."""
    return JSONResponse({"error": message, **further}, status_code=status)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", [])
            assert isinstance(headers, list)
            message = {**message, "headers": [*headers, *_HEADERS]}
        await send(message)

    return send_with_headers  # type: ignore[return-value]  # starlette's messages are mutable mappings
