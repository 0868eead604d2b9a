"""Tests of the control port's application without a server: what it refuses, and how it describes itself.

The cluster has not been started, so a request that passes every check is answered with 409.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.types import ASGIApp

from tests.understudy.asgi import HOST, TOKEN, Answer, call
from understudy.clusters.control import verbs as verbs_module
from understudy.clusters.control.api_description import OPERATIONS, READS, openapi
from understudy.clusters.control.app import application
from understudy.clusters.control.bodies import OnTarget, body_of
from understudy.clusters.control.guard import LARGEST_BODY
from understudy.clusters.control.verbs import ClusterVerbs, checked
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.values import parse_target
from understudy.clusters.verb_table import ANSWER, ARM, TARGETS, VERBS
from understudy.controller.points import POINTS

AUTHORIZED = {"host": HOST, "authorization": f"Bearer {TOKEN}"}
NOT_STARTED = (409, "this cluster has not been started")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    connect = "127.0.0.1:1"
    cluster = LocalCluster(2, directory=tmp_path_factory.mktemp("run"), zookeeper=connect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs_module, "ANSWER_TIMEOUT_S", 0.1)
        verbs = ClusterVerbs(cluster, report=print)
    view = ClusterView(connect, answer_timeout_s=0.1)
    yield application(verbs, view, hosts=frozenset({HOST, "localhost:4711"}), token=TOKEN)
    verbs.close()
    view.close()


def post(app: ASGIApp, path: str, body: object) -> Answer:
    return call(app, path, AUTHORIZED, method="POST", body=json.dumps(body).encode())


# ------------------------------------------------------------------ who may send what


def test_a_request_with_the_token_reaches_the_cluster(app: ASGIApp) -> None:
    assert post(app, "/verbs/kill", {"target": "1"}).error == NOT_STARTED


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
@pytest.mark.parametrize("authorization", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN} "])
def test_without_the_token_nothing_is_changed(app: ASGIApp, operation: Any, authorization: str | None) -> None:
    headers = {"host": HOST} | ({} if authorization is None else {"authorization": authorization})
    answer = call(app, operation.path, headers, method="POST")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", [*READS, "/verbs/kill"])
@pytest.mark.parametrize(
    "hosts", [[], ["evil.example:4711"], ["127.0.0.1"], ["127.0.0.1:80"], [HOST, HOST], [HOST, "evil.example"]]
)
def test_another_host_is_refused(app: ASGIApp, path: str, hosts: list[str]) -> None:
    """A page whose host name resolves to 127.0.0.1 (DNS rebinding) sends that name as Host."""
    headers = [("authorization", f"Bearer {TOKEN}"), *(("host", host) for host in hosts)]
    answer = call(app, path, headers, method="POST" if path.startswith("/verbs") else "GET")
    assert answer.error == (403, f"the header Host must be one of {HOST}, localhost:4711")


@pytest.mark.parametrize("origin", ["https://evil.example", f"http://{HOST}", "null"])
def test_requests_of_web_pages_are_refused(app: ASGIApp, origin: str) -> None:
    answer = call(app, "/verbs/kill", {**AUTHORIZED, "origin": origin}, method="POST", body=b'{"target": "1"}')
    assert answer.error == (403, "requests of web pages are refused: the header Origin is set")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("declared", [True, False], ids=["with a length", "in parts"])
def test_a_large_body_is_refused(app: ASGIApp, declared: bool) -> None:
    body = b" " * (LARGEST_BODY + 1)
    headers = AUTHORIZED | ({"content-length": str(len(body))} if declared else {})
    answer = call(app, "/produce", headers, method="POST", body=body)
    assert answer.error == (413, "the body of a request may have 1048576 bytes")


# ------------------------------------------------------------------ wrong requests


@pytest.mark.parametrize(
    ("verb", "body", "message"),
    [
        ("kill", {}, "missing required field `target`"),
        ("kill", {"target": 1}, "Expected `str`, got `int` - at `$.target`"),
        ("kill", {"target": "1", "fur": "5s"}, "unknown field `fur`"),
        ("kill", {"target": "controler"}, "'controler' is no target; did you mean 'controller'?"),
        ("kill", {"target": "B"}, "'B' is no target"),
        ("kill", {"target": "leader:orders"}, "'orders' is no partition; expected TOPIC/NUMBER"),
        ("kill", {"target": "1", "for": "5"}, "'5' is no duration; expected a number with ms, s, m or h"),
        ("kill", {"target": "1", "for": "0s"}, "'0s' is no duration that can pass; expected for example 5s"),
        ("resume", {"target": "1", "for": "5s"}, "unknown field `for`"),
        ("depose", {"target": "zookeeper"}, "zookeeper cannot be the target of depose; it can be that of kill, pause"),
        ("arm", {"target": "1", "point": "nowhere", "action": "pause"}, "there is no point 'nowhere'; the points are"),
        ("arm", {"target": "1", "point": POINTS[0], "action": "sleep"}, "Invalid enum value 'sleep'"),
        ("answer", {"target": "1"}, "missing required field `api`"),
        ("answer", {"target": "1", "api": "Produce", "error": "NOT"}, "'NOT' is no error of Kafka"),
        ("answer", {"target": "1", "api": "Produce", "error": "NONE"}, "needs an error other than NONE"),
        ("answer", {"target": "1", "api": "Produce", "and": "wait"}, "Invalid enum value 'wait' - at `$.and`"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_expected(
    app: ASGIApp, verb: str, body: dict[str, Any], message: str
) -> None:
    status, error = post(app, f"/verbs/{verb}", body).error
    assert status == 400
    assert message in error


def test_a_body_that_is_no_json_is_refused(app: ASGIApp) -> None:
    status, error = call(app, "/topics", AUTHORIZED, method="POST", body=b"{").error
    assert (status, error) == (400, "the body of the request is not as expected: Input data was truncated")


def test_an_unknown_verb_or_path_is_not_found(app: ASGIApp) -> None:
    status, error = post(app, "/verbs/explode", {"target": "1"}).error
    assert (status, error) == (404, f"there is no verb 'explode'; the verbs are {', '.join(VERBS)}")
    assert call(app, "/nothing", AUTHORIZED).status == 404
    assert call(app, "/verbs/kill", AUTHORIZED).status == 405


def test_a_server_that_the_cluster_did_not_start_is_no_target(app: ASGIApp) -> None:
    expected = (409, "zookeeper cannot be a target: this cluster uses a server that it did not start")
    assert post(app, "/verbs/kill", {"target": "zookeeper"}).error == expected


def test_a_partition_of_an_election_is_checked(app: ASGIApp) -> None:
    status, error = post(app, "/elections", {"partitions": ["orders"]}).error
    assert (status, error) == (400, "'orders' is no partition; expected TOPIC/NUMBER, for example orders/0")


def test_a_zookeeper_that_does_not_answer_is_503(app: ASGIApp) -> None:
    status, error = post(app, "/verbs/kill", {"target": "controller"}).error
    assert status == 503
    assert "127.0.0.1:1" in error


# ------------------------------------------------------------------ the description


def test_every_operation_and_only_these_are_described_and_served(app: ASGIApp) -> None:
    answer = call(app, "/openapi.json")
    assert answer.status == 200
    document = json.loads(answer.body)
    paths = {path: set(methods) for path, methods in document["paths"].items()}
    assert paths == {path: {"get"} for path in READS} | {operation.path: {"post"} for operation in OPERATIONS}
    for path, methods in document["paths"].items():
        for method in methods:
            assert call(app, path, AUTHORIZED, method=method.upper()).status not in (404, 405), path
    assert {f"/verbs/{verb}" for verb in VERBS} < set(paths)


def test_each_reference_of_the_description_is_defined() -> None:
    document = openapi("1.2.3")
    text = json.dumps(document)
    for name in (part.split('"')[0] for part in text.split("#/components/schemas/")[1:]):
        assert name in document["components"]["schemas"]
    assert document["components"]["schemas"]["OnTargetFor"]["required"] == ["target"]
    assert "for" in document["components"]["schemas"]["OnTargetFor"]["properties"]


class Loads(HTMLParser):
    """Collects what a page loads, and the text of its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{tag} {name}" for name, _ in attributes if name in ("src", "href")]
        if tag in ("script", "link", "img"):
            self.loaded.append(tag)


def test_the_page_loads_nothing_and_names_every_verb(app: ASGIApp) -> None:
    answer = call(app, "/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = answer.body.decode()
    loads = Loads()
    loads.feed(page)
    assert loads.loaded == []
    assert [verb for verb in VERBS if f"POST /verbs/{verb}</code>" not in page] == []


# ------------------------------------------------------------------ the table


def test_each_undo_is_a_verb_and_each_target_of_the_table_can_be_read() -> None:
    assert {verb.undo for verb in VERBS.values()} <= {*VERBS, ""}
    assert [parse_target(form).role for form in TARGETS] == [
        "broker",
        "controller",
        "leader",
        "follower",
        "rack",
        "random",
        "all",
        "zookeeper",
        "zookeeper",
        "zookeeper",
    ]


@pytest.mark.parametrize("verb", [name for name in VERBS if name not in (ARM, ANSWER)])
def test_every_verb_takes_a_broker_and_has_a_body(verb: str) -> None:
    body = body_of(verb)(target="controller")
    assert isinstance(body, OnTarget)
    assert checked(verb, body).target.role == "controller"
