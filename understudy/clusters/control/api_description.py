"""Describes the control port: as an OpenAPI document, and as an HTML page that is made from that document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from understudy.clusters.control.bodies import Body, Election, NewTopic, Records, body_of
from understudy.clusters.verb_table import TARGETS, VERBS
from understudy.history.writing import Html, element, page, table

OPENAPI_VERSION: Final = "3.1.0"
_COMPONENTS: Final = "#/components/schemas/{name}"


class Operation(NamedTuple):
    """One route that changes the cluster: its path, what it does, and the struct of its body."""

    path: str
    meaning: str
    body: type[Body]


OPERATIONS: Final = (
    *(Operation(f"/verbs/{name}", verb.meaning, body_of(name)) for name, verb in VERBS.items()),
    Operation("/topics", "create a topic", NewTopic),
    Operation("/elections", "elect the leaders of partitions", Election),
    Operation("/produce", "append records to a partition", Records),
)
"""The routes that need the token."""

READS: Final = {
    "/cluster": "the controller, the brokers and the partitions, as `understudy status --json` prints them",
    "/answers": "the answers that were armed by `answer`, and how often each was given (`hits`)",
    "/openapi.json": "this description as an OpenAPI document",
    "/docs": "this description as a page",
}
"""The routes that change nothing and need no token on loopback."""

ANSWERS: Final = {
    "200": "it is done",
    "400": "the request is wrong; the message says what is expected",
    "401": "the token is missing or wrong",
    "403": "another Host than this address, or a request of a web page",
    "409": "the cluster is not in the state for it, or cannot do it",
    "413": "the body is too large",
    "503": "ZooKeeper or the brokers do not answer",
    "504": "it was not done in time, and may be done later",
}
"""The status codes of the answers. All but 200 have a JSON object with the key `error`."""


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI document. `version` is the program's version."""
    _, schemas = msgspec.json.schema_components([operation.body for operation in OPERATIONS], ref_template=_COMPONENTS)
    answers = {code: {"description": meaning} for code, meaning in ANSWERS.items()}
    paths: dict[str, Any] = {
        path: {"get": {"summary": meaning, "responses": {"200": {"description": "the answer"}}}}
        for path, meaning in READS.items()
    }
    for operation in OPERATIONS:
        schema = {"$ref": _COMPONENTS.format(name=operation.body.__name__)}
        paths[operation.path] = {
            "post": {
                "summary": operation.meaning,
                "operationId": operation.path.strip("/").replace("/", "_"),
                "security": [{"token": []}],
                "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
                "responses": answers,
            }
        }
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Understudy: verbs on a running cluster", "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def docs_page(document: Mapping[str, Any]) -> str:
    """Return an HTML page for an OpenAPI document. It loads nothing else."""
    return page(
        document["info"]["title"],
        element(
            "p",
            "A POST, and every request to an address that is not loopback, needs the header ",
            _code("Authorization: Bearer TOKEN"),
            "; the token is in ",
            _code("control.json"),
            " in the run folder, or your own. Bodies and answers are JSON. An answer to a request that is refused has "
            "the key ",
            _code("error"),
            ".",
        ),
        table(("status", "what it means"), ((_code(code), meaning) for code, meaning in ANSWERS.items())),
        "A target has one of these forms; a role is resolved when the verb is done.",
        table(("target", "what it means"), ((_code(form), meaning) for form, meaning in TARGETS.items())),
        *_sections(document),
    )


def _sections(document: Mapping[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield element("h2", _code(f"{method.upper()} {path}"))
            yield operation["summary"]
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                yield _fields(schemas[reference.rpartition("/")[2]])


def _fields(schema: Mapping[str, Any]) -> Html:
    rows = []
    for name, field in schema["properties"].items():
        details = {key: value for key, value in field.items() if key not in ("description", "default")}
        need = "required" if name in schema.get("required", ()) else "optional"
        words = field.get("description", "")
        rows.append((_code(name), f"{need}; {words}" if words else need, json.dumps(details)))
    return table(("key", "what it is", "schema"), rows)


def _code(text: str) -> Html:
    return element("code", text)
