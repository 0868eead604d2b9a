"""Control requests and their responses are read from Kafka's request log, in the order of completion."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden.recording import Json
from tests.golden.requests import COMPLETED, of_request_log


def line(key: str, request: Json, response: Json, version: int = 7) -> str:
    header = {
        "requestApiKey": 4,
        "requestApiVersion": version,
        "correlationId": 3,
        "clientId": "0",
        "requestApiKeyName": key,
    }
    logged = {
        "isForwarded": False,
        "requestHeader": header,
        "request": request,
        "response": response,
        "totalTimeMs": 1.5,
    }
    return f"{COMPLETED}{json.dumps(logged, separators=(',', ':'))}\n"


def test_only_control_requests_are_read_in_their_order(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    first = line("LEADER_AND_ISR", {"controllerEpoch": 1}, {"errorCode": 0})
    fetch = line("FETCH", {"clusterId": "UPDATE_METADATA"}, {})
    named_alike = line("METADATA", {"topics": [{"name": "UPDATE_METADATA"}]}, {})
    second = line("UPDATE_METADATA", {"controllerEpoch": 2}, {"errorCode": 11}, version=8)
    log.write_text("Processor 0 received request\n" + first + fetch + named_alike + second + first[:-20])
    shown = {"to": 2, "version": 7, "client": "0", "key": "LEADER_AND_ISR"}
    assert list(of_request_log(2, log)) == [
        shown | {"request": {"controllerEpoch": 1}, "response": {"errorCode": 0}},
        shown
        | {"key": "UPDATE_METADATA", "version": 8, "request": {"controllerEpoch": 2}, "response": {"errorCode": 11}},
    ]


def test_an_incomplete_line_is_read_at_the_next_call(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    whole = line("STOP_REPLICA", {}, {})
    log.write_text(whole[:-1])
    assert list(of_request_log(0, log)) == []
    log.write_text(whole)
    assert [request["key"] for request in of_request_log(0, log)] == ["STOP_REPLICA"]
