"""`GoogleServer` is gcp-storage-emulator, an emulator of Google Cloud Storage, with faults.

Google has two interfaces: Arrow's client uses the one with JSON, deltalake's the one with XML. The emulator has the
first one; the second is translated into it here, with the condition that an object is not there yet.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.understudy.history.storage.faulty_server import FaultyServer
from tests.understudy.history.storage.front import Answer, Emulator, Request, serve

_JSON = "application/json"


class GoogleServer(FaultyServer):
    """Answers requests while its block runs."""

    module = "tests.understudy.history.storage.google_server"

    @classmethod
    def environment_at(cls, url: str) -> dict[str, str]:
        return {"CLOUD_STORAGE_EMULATOR_ENDPOINT": url}

    @classmethod
    def url_of(cls, name: str) -> str:
        return f"gs://{name}"

    def make(self, name: str) -> None:
        self.send("POST", "/storage/v1/b?project=understudy", json.dumps({"name": name}).encode(), _JSON)


# ------------------------------------------------------------------ in the server's process

_changing = threading.Lock()
"""Held while an object is written, because the emulator knows no conditions."""


def _answer(emulator: Emulator, request: Request) -> Answer:
    url = urlsplit(request.path)
    if url.path.startswith("/upload/"):
        return _uploaded(emulator(request))
    if url.path.startswith(("/storage/", "/download/")):
        return emulator(request)
    bucket, _, name = (unquote(part) for part in url.path.lstrip("/").partition("/"))
    query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
    place = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    if not name:
        return _listing(emulator, request, bucket, query)
    if request.method in ("GET", "HEAD"):
        return _read(emulator, request, place)
    if request.method == "DELETE":
        return emulator(request._replace(path=place))
    if request.method == "PUT" and not query and "x-goog-copy-source" not in request.headers:
        return _put(emulator, request, bucket, name, place)
    return Answer(501, {}, f"{request.method} {request.path}".encode())


def _uploaded(answer: Answer) -> Answer:
    """Return the answer to a part of a file. The emulator says of nothing that it has got one byte."""
    if answer.status == 308 and answer.headers.get("Range") == "bytes=0-0":
        return answer._replace(headers={name: value for name, value in answer.headers.items() if name != "Range"})
    return answer


def _read(emulator: Emulator, request: Request, place: str) -> Answer:
    found = emulator(Request("GET", place, {}, b""))
    if found.status != 200:
        return found
    described = json.loads(found.body)
    changed = datetime.fromisoformat(described["updated"])
    headers = {
        "ETag": f'"{described["etag"]}"',
        "Last-Modified": format_datetime(changed, usegmt=True),
        "x-goog-generation": described["generation"],
    }
    if request.method == "HEAD":
        return Answer(200, headers, b"", int(described["size"]))
    content = emulator(request._replace(path=f"/download{place}?alt=media"))
    return content._replace(headers={**content.headers, **headers})


def _put(emulator: Emulator, request: Request, bucket: str, name: str, place: str) -> Answer:
    asked = urlencode({"uploadType": "media", "name": name})
    with _changing:
        if request.headers.get("x-goog-if-generation-match") == "0":
            present = emulator(Request("GET", place, {}, b""))
            if present.status != 404:
                return Answer(412, {}, b"")
        found = emulator(request._replace(method="POST", path=f"/upload/storage/v1/b/{bucket}/o?{asked}"))
    if found.status != 200:
        return found
    made = json.loads(found.body)
    return Answer(200, {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}, b"")


def _listing(emulator: Emulator, request: Request, bucket: str, query: dict[str, str]) -> Answer:
    asked = urlencode({key: value for key, value in query.items() if key in ("prefix", "delimiter")})
    found = emulator(request._replace(path=f"/storage/v1/b/{bucket}/o?{asked}"))
    if found.status != 200:
        return found
    listed = json.loads(found.body)
    after = query.get("start-after", "")
    files = "".join(
        f"<Contents><Key>{escape(each['name'])}</Key><Generation>{each['generation']}</Generation>"
        f"<LastModified>{each['updated']}</LastModified><ETag>{each['etag']}</ETag><Size>{each['size']}</Size></Contents>"
        for each in sorted(listed.get("items", ()), key=lambda each: str(each["name"]))
        if each["name"] > after
    )
    folders = "".join(
        f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in listed.get("prefixes", ())
    )
    page = f"<ListBucketResult>{files}{folders}</ListBucketResult>"
    return Answer(200, {"Content-Type": "application/xml"}, page.encode())


def _command(port: int) -> list[str]:
    at = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "gcp_storage_emulator", "start", *at, "--in-memory", "--quiet"]


if __name__ == "__main__":
    serve(_command, _answer)
