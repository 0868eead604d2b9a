"""The application of the page without a server: what it serves, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.foundation.eventlog.lines import Logs
from tests.understudy.asgi import COMMAND, HOST, OWN, TOKEN, call, post
from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.control_file import ControlEntry, NoControlPort, write_control_file
from understudy.clusters.control.guard import LARGEST_BODY
from understudy.clusters.processes.run_folder import this_process
from understudy.foundation.eventlog.records import StepReached
from understudy.history.reading.reader import read_lines
from understudy.page.recorded import chunks as chunks_module
from understudy.page.served import app as app_module
from understudy.page.served.app import COMMANDS, application
from understudy.page.served.changes import Changes
from understudy.page.served.live import LiveRun

READS = ("/", "/favicon.ico", "/static/source.js", "/run.json", "/chunks/0", "/events")
HOSTS = frozenset({HOST, "localhost:4711"})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveRun:
    """A live run of seven records, whose cluster has a control port that does not answer."""
    monkeypatch.setattr(chunks_module, "CHUNK_RECORDS", 3)
    logs = Logs()
    for number in range(7):
        logs.at(1000 + number, "broker-1", StepReached(step=f"step {number}"))
    run = LiveRun(tmp_path, "run-1")
    run.add(read_lines(logs.lines).records)
    entry = ControlEntry(version=1, host="127.0.0.1", port=1, token="control token", owner=this_process())
    write_control_file(tmp_path, entry)
    return run


@pytest.fixture
def app(run: LiveRun) -> ASGIApp:
    return application(run, Changes(), folder=run.folder, hosts=HOSTS, token=TOKEN)


class Called:
    """What was passed to the control port, and what it answers."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] | Exception = {"done": ["broker-1"]}

    def post(self, client: ControlClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.posts.append((path, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    found = Called()
    monkeypatch.setattr(ControlClient, "post", lambda *arguments: found.post(*arguments))
    return found


# ------------------------------------------------------------------ reading


def test_the_page_may_run_its_own_scripts_and_nothing_else(app: ASGIApp) -> None:
    answer = call(app, "/")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    directives = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    html = answer.body.decode()
    inline = [part.split(">", 1)[1].split("</script>")[0] for part in html.split("<script")[1:]]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in inline]
    assert directives.pop("script-src").split() == ["'self'", *hashes]
    assert directives == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert json.loads(inline[0])["imports"]["#source"] == "/static/source.js"


@pytest.mark.parametrize("path", [*READS[:-1], "/nowhere", "/chunks/9", "/events?after=x"])
def test_every_answer_has_the_policy_and_its_declared_type(app: ASGIApp, path: str) -> None:
    headers = call(app, path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] in ("no-store", "no-cache")


def test_run_json_describes_the_run(app: ASGIApp) -> None:
    found = call(app, "/run.json").json
    assert found["run"] == "run-1"
    assert (found["records"], found["chunks"], found["chunk_records"]) == (7, 3, 3)
    assert (found["first_us"], found["last_us"]) == (1_000_000, 1_006_000)
    assert (found["is_live"], found["can_command"]) == (True, True)
    assert found["brokers"] == [1]
    assert "kill" in [verb["name"] for verb in found["verbs"]]


def test_chunks_are_compressed_and_asked_for_again_only_where_they_changed(app: ASGIApp) -> None:
    answers = [call(app, f"/chunks/{number}") for number in range(3)]
    steps = [record[8]["step"] for answer in answers for record in answer.json]
    assert steps == [f"step {number}" for number in range(7)]
    assert [answer.headers["understudy-records"] for answer in answers] == ["3", "3", "1"]
    known = call(app, "/chunks/0", {**OWN, "if-none-match": answers[0].headers["etag"]})
    assert (known.status, known.body) == (304, b"")
    assert call(app, "/chunks/2", {**OWN, "if-none-match": answers[0].headers["etag"]}).status == 200


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/chunks/3", (404, "there is no chunk 3; the chunks are 0 to 2")),
        ("/events?after=8", (409, "this run has 7 records, not 8; reload the page")),
        ("/events?after=-1", (400, "'-1' is no number of records")),
        ("/events?after=1e3", (400, "'1e3' is no number of records")),
        (f"/events?after={'9' * 40}", (400, f"'{'9' * 40}' is no number of records")),
        ("/static/nothing.js", (404, "the page has no file 'nothing.js'")),
    ],
)
def test_what_does_not_exist_is_named(app: ASGIApp, path: str, error: tuple[int, str]) -> None:
    assert call(app, path).error == error


# ------------------------------------------------------------------ commands


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_a_command_is_passed_to_the_control_port(app: ASGIApp, called: Called, path: str) -> None:
    answer = post(app, f"/control{path}", {"target": "controller"})
    assert (answer.status, answer.json) == (200, {"done": ["broker-1"]})
    assert called.posts == [(path, {"target": "controller"})]


@pytest.mark.parametrize(
    ("raised", "status", "answer"),
    [
        (ControlRefused("no", 409, {"error": "no", "kafka_error": "X"}), 409, {"error": "no", "kafka_error": "X"}),
        (NoControlPort("gone"), 503, {"error": "gone"}),
    ],
)
def test_a_refusal_of_the_control_port_is_passed_on(
    app: ASGIApp, called: Called, raised: Exception, status: int, answer: dict[str, str]
) -> None:
    called.answer = raised
    found = post(app, "/control/verbs/kill", {"target": "1"})
    assert (found.status, found.json) == (status, answer)


def test_a_run_that_has_ended_takes_no_commands(app: ASGIApp, run: LiveRun, called: Called) -> None:
    run.is_live = False
    status, message = post(app, "/control/verbs/kill", {"target": "1"}).error
    assert (status, message.startswith("this run takes no commands")) == (409, True)
    assert call(app, "/run.json").json["can_command"] is False
    assert called.posts == []


def test_so_many_commands_may_be_under_way(app: ASGIApp, called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MOST_COMMANDS", 0)
    assert post(app, "/control/verbs/kill", {}).error == (503, "0 commands are under way; wait for one")
    assert called.posts == []


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'"x"'])
def test_a_body_that_is_no_object_is_refused(app: ASGIApp, called: Called, body: bytes) -> None:
    answer = call(app, "/control/verbs/kill", COMMAND, method="POST", body=body)
    assert answer.status == 400
    assert answer.error[1].startswith("the body of the request is not a JSON object: ")
    assert called.posts == []


# ------------------------------------------------------------------ an attacker


@pytest.mark.parametrize("path", [*READS, "/control/verbs/kill"])
@pytest.mark.parametrize(
    "hosts", [[], ["evil.example:4711"], ["127.0.0.1"], ["127.0.0.1:80"], [HOST, HOST], [HOST, "evil.example"]]
)
def test_another_host_is_refused(app: ASGIApp, called: Called, path: str, hosts: list[str]) -> None:
    """A page whose host name resolves to 127.0.0.1 (DNS rebinding) sends that name as Host."""
    headers = [(name, value) for name, value in COMMAND.items() if name != "host"]
    headers += [("host", host) for host in hosts]
    answer = call(app, path, headers, method="POST" if path.startswith("/control") else "GET")
    assert answer.error == (403, f"the header Host must be one of {HOST}, localhost:4711")
    assert called.posts == []


@pytest.mark.parametrize("path", [*READS, "/control/verbs/kill"])
@pytest.mark.parametrize("origin", ["https://evil.example", f"https://{HOST}", "http://127.0.0.1:80", "null", ""])
def test_requests_of_other_pages_are_refused(app: ASGIApp, called: Called, path: str, origin: str) -> None:
    headers = {**COMMAND, "origin": origin}
    answer = call(app, path, headers, method="POST" if path.startswith("/control") else "GET")
    assert answer.error == (403, f"the header Origin must be one of http://{HOST}, http://localhost:4711")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert called.posts == []


def test_a_command_without_an_origin_is_refused(app: ASGIApp, called: Called) -> None:
    headers = {name: value for name, value in COMMAND.items() if name != "origin"}
    assert post(app, "/control/verbs/kill", {}, headers).status == 403
    assert called.posts == []


@pytest.mark.parametrize("path", sorted(COMMANDS))
@pytest.mark.parametrize("authorization", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer control token"])
def test_without_the_token_nothing_is_changed(
    app: ASGIApp, called: Called, path: str, authorization: str | None
) -> None:
    headers = {name: value for name, value in COMMAND.items() if name != "authorization"}
    if authorization is not None:
        headers["authorization"] = authorization
    status, message = post(app, f"/control{path}", {}, headers).error
    assert (status, "missing or wrong" in message) == (401, True)
    assert called.posts == []


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "....js", ".js", "/etc/passwd", "index.html", "source.js/.."]
)
def test_only_files_of_the_page_are_served(app: ASGIApp, name: str) -> None:
    assert call(app, f"/static/{name}").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/verbs/nothing",
        "/verbs/kill/",
        "/verbs/kill/../arm",
        "//127.0.0.1:1/verbs/kill",
        "/verbs/kill%20HTTP/1.1",
        "/cluster",
        "/openapi.json",
        "/",
    ],
)
def test_only_commands_are_passed_on(app: ASGIApp, called: Called, path: str) -> None:
    assert post(app, f"/control{path}", {}).status == 404
    assert called.posts == []


@pytest.mark.parametrize("declared", [True, False], ids=["with a length", "in parts"])
def test_a_large_body_is_refused(app: ASGIApp, called: Called, declared: bool) -> None:
    body = b" " * (LARGEST_BODY + 1)
    headers = COMMAND | ({"content-length": str(len(body))} if declared else {})
    answer = call(app, "/control/produce", headers, method="POST", body=body)
    assert answer.error == (413, "the body of a request may have 1048576 bytes")
    assert called.posts == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
@pytest.mark.parametrize("path", READS)
def test_other_methods_change_nothing(app: ASGIApp, method: str, path: str) -> None:
    assert call(app, path, COMMAND, method=method).status == 405


def test_a_page_on_another_address_takes_no_commands(run: LiveRun, called: Called) -> None:
    app = application(run, Changes(), folder=run.folder, hosts=HOSTS, token=None)
    assert call(app, "/run.json").json["can_command"] is False
    status, message = post(app, "/control/verbs/kill", {}).error
    assert (status, message) == (403, "this address only shows the run; commands are accepted on loopback")
    assert called.posts == []
