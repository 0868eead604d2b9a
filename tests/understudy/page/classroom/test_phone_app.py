"""The application that phones reach, without a server: its answers and refusals."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest
from starlette.types import ASGIApp

from tests.understudy.asgi import HOST, OWN, Answer, call, post
from tests.understudy.page.classroom.steps import ANSWER, CHECK, MOMENT, PREDICT
from understudy.page.classroom.classroom import MOST_PHONES, Classroom
from understudy.page.classroom.phone_app import FILES, LARGEST_BODY, phone_application
from understudy.page.served.changes import Changes

CODE = "zv66rz"
JOINING = {"host": HOST, "origin": f"http://{HOST}", "authorization": f"Bearer {CODE}"}
COOKIE = "understudy-class-4711"


@pytest.fixture
def room() -> Classroom:
    secrets = count(1)
    return Classroom("The zombie", lambda: f"secret-{next(secrets)}", lambda: None)


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def app(room: Classroom, changes: Changes) -> ASGIApp:
    return phone_application(room, changes, hosts=frozenset({HOST}), code=CODE, cookie=COOKIE)


def joined(app: ASGIApp) -> dict[str, str]:
    """The headers of a phone that has joined."""
    answer = post(app, "/join", {}, JOINING)
    assert answer.status == 200
    return {**JOINING, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def vote(app: ASGIApp, phone: dict[str, str], answer: object, question: str = "predict") -> Answer:
    return post(app, "/vote", {"question": question, "answer": answer}, phone)


def test_the_page_loads_its_own_files_and_connects_to_its_own_server(app: ASGIApp) -> None:
    page = call(app, "/")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert (policy["script-src"], policy["connect-src"], policy["default-src"]) == ("'self'", "'self'", "'none'")
    loaded = set(re.findall(r'(?:href|src)="/([^"]+)"', page.body.decode()))
    assert loaded == set(FILES) - {"dom.js", "words.js"}
    for name in FILES:
        assert call(app, f"/{name}").status == 200


def test_a_phone_joins_with_the_code_and_gets_a_cookie_of_its_own(app: ASGIApp) -> None:
    answer = post(app, "/join", {}, JOINING)
    assert answer.json["title"] == "The zombie"
    assert answer.headers["set-cookie"].startswith(f"{COOKIE}=secret-1; HttpOnly; Max-Age=")
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert joined(app)["cookie"] == f"{COOKIE}=secret-2"
    again = post(app, "/join", {}, {**JOINING, "cookie": f"{COOKIE}=secret-1"})
    assert "secret-1;" in again.headers["set-cookie"]


@pytest.mark.parametrize("path", ["/join", "/vote"])
@pytest.mark.parametrize("wrong", [{"authorization": "Bearer other"}, {"origin": "http://evil.example"}])
def test_without_the_code_or_from_another_page_nobody_joins_or_votes(
    app: ASGIApp, room: Classroom, path: str, wrong: dict[str, str]
) -> None:
    phone = joined(app)
    room.show(PREDICT)
    refused = post(app, path, {"question": "predict", "answer": 1}, {**phone, **wrong})
    assert refused.status in (401, 403)
    assert len(refused.json["error"]) > 20
    assert room.counts()[0] == 1
    assert room.phone_document("secret-1").yours is None


def test_another_host_is_refused(app: ASGIApp) -> None:
    assert call(app, "/", {"host": "evil.example"}).status == 403


@pytest.mark.parametrize("path", ["/now", "/events"])
def test_the_question_is_read_by_phones_that_have_joined_only(app: ASGIApp, path: str) -> None:
    status, error = call(app, path).error
    assert (status, "has not joined the class" in error) == (401, True)


def test_a_vote_is_counted_once_and_its_answer_is_what_the_phone_shows(app: ASGIApp, room: Classroom) -> None:
    phone, other = joined(app), joined(app)
    room.show(PREDICT)
    assert vote(app, phone, 0).json["yours"] == 0
    assert vote(app, phone, 2).json["yours"] == 2
    assert vote(app, other, 1).json["tally"] is None
    room.reveal("predict")
    assert call(app, "/now", phone).json["tally"]["counts"] == [0, 1, 1]
    status, error = vote(app, phone, 1).error
    assert (status, "is not open" in error) == (409, True)


def test_a_late_comer_is_at_the_step_of_the_class(app: ASGIApp, room: Classroom) -> None:
    room.show(PREDICT)
    room.show(MOMENT)
    assert call(app, "/now", joined(app)).json["step"]["headline"] == "The controller dies."
    room.show(ANSWER)
    assert call(app, "/now", joined(app)).json["tally"]["right"] == {"value": 1.0, "within": 0.0}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"question": "check"}',
        b'{"question": "check", "answer": null}',
        b'{"question": "check", "answer": "1"}',
        b'{"question": "check", "answer": true}',
        b'{"question": "check", "answer": NaN}',
        b'{"question": "check", "answer": 1e999}',
        b'{"question": "check", "answer": ' + b"9" * 500 + b"}",
        b'{"question": "check", "answer": 1, "phone": "secret-2"}',
        b'{"question": ["check"], "answer": 1}',
        b"\xff\xfe",
    ],
)
def test_a_body_that_is_no_vote_is_refused_with_a_sentence(app: ASGIApp, room: Classroom, body: bytes) -> None:
    phone = joined(app)
    room.show(CHECK)
    status, error = call(app, "/vote", phone, method="POST", body=body).error
    assert (status, len(error) > 20) == (400, True)
    assert room.phone_document("secret-1").yours is None


@pytest.mark.parametrize("path", ["/join", "/vote"])
def test_a_large_body_is_refused(app: ASGIApp, path: str) -> None:
    phone = joined(app)
    status, error = call(app, path, phone, method="POST", body=b" " * (LARGEST_BODY + 1)).error
    assert (status, error) == (413, "the body of a request may have 1024 bytes")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/begin"),
        ("POST", "/one/control/verbs/kill"),
        ("POST", "/control/verbs/kill"),
        ("POST", "/class/step"),
        ("POST", "/class/reveal"),
        ("GET", "/class.json"),
        ("GET", "/lesson.json"),
        ("GET", "/run.json"),
        ("GET", "/one/"),
        ("GET", "/static/lesson.js"),
        ("GET", "/../page.py"),
        ("GET", "/vote"),
        ("DELETE", "/vote"),
        ("PUT", "/join"),
    ],
)
def test_nothing_of_the_cluster_and_of_the_teacher_is_here(app: ASGIApp, method: str, path: str) -> None:
    phone = joined(app)
    status, error = call(app, path, phone, method=method, body=json.dumps({"target": "1"}).encode()).error
    assert (status, "this address has a class, and no cluster" in error) == (404, True)


def test_no_more_phones_join_than_a_class_may_have(app: ASGIApp, room: Classroom) -> None:
    for _ in range(MOST_PHONES):
        room.join(None)
    status, error = post(app, "/join", {}, JOINING).error
    assert (status, "300 phones" in error) == (503, True)


def test_a_stream_begins_with_the_step_and_ends_with_the_server(
    app: ASGIApp, room: Classroom, changes: Changes
) -> None:
    phone = joined(app)
    room.show(MOMENT)
    changes.close()
    answer = call(app, "/events", phone)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.startswith(b"retry: ")


def test_a_page_of_another_origin_reads_nothing(app: ASGIApp) -> None:
    phone = joined(app)
    assert call(app, "/now", {**phone, "origin": "http://evil.example"}).status == 403
    assert call(app, "/now", {**OWN, "cookie": phone["cookie"]}).status == 200
