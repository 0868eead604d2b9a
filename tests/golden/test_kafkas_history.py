"""Apache Kafka's recorded histories violate none of our checks: one that Kafka violates would be wrong."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from tests.golden.recording import SCENARIOS as RECORDED
from tests.golden.recording import Json, load
from tests.golden.scenarios import BROKERS, IBP, SCENARIOS, Scenario, startup
from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.checks.invariant_checker import InvariantChecker

KINDS = {"create": OpKind.CREATE, "setData": OpKind.SET, "delete": OpKind.DELETE, "check": OpKind.CHECK}


def is_checked(scenario: str) -> bool:
    """Whether the checks apply: not if the recording does not follow `startup`, or if an operator violates them."""
    recorded = SCENARIOS.get(scenario, Scenario(startup))
    return not recorded.unchecked and recorded.brokers == BROKERS and IBP not in recorded.settings


def history(*documents: Json) -> list[ZnodeTransaction]:
    """The transactions of all given recordings as one znode history."""
    ephemerals: dict[str, list[str]] = {}
    sessions: dict[str, int] = {}
    fresh = itertools.count(1)
    transactions: list[ZnodeTransaction] = []
    for recorded in (t for document in documents for step in document["steps"] for t in step["txns"]):
        by = recorded["by"]
        session = sessions[by] = sessions.get(by) or next(fresh)
        closed = recorded.get("op") == "closeSession"
        if closed:
            ops = tuple(ZnodeOp(OpKind.DELETE, path) for path in ephemerals.pop(by, []))
            sessions.pop(by)
        else:
            ops = tuple(operations(recorded, session, ephemerals.setdefault(by, [])))
        if ops or closed:
            zxid = len(transactions) + 1
            transactions.append(ZnodeTransaction(zxid, float(zxid), session, ops, closed))
    return transactions


def operations(recorded: Json, session: int, ephemerals: list[str]) -> Iterator[ZnodeOp]:
    parts = recorded.get("multi", [recorded])
    if any(part["op"] == "error" for part in parts):
        return
    for part in parts:
        data = None if part.get("data") is None else json.dumps(part["data"]).encode()
        ephemeral = part.get("ephemeral", False)
        if ephemeral:
            ephemerals.append(part["path"])
        version = part.get("version", 0) - (part["op"] == "check")
        yield ZnodeOp(KINDS[part["op"]], part["path"], data, version, session if ephemeral else 0)


@pytest.mark.parametrize("scenario", [name for name in RECORDED if is_checked(name)])
def test_a_recorded_history_of_kafka_violates_no_check(scenario: str) -> None:
    documents = [load("startup")] if scenario == "startup" else [load("startup"), load(scenario)]
    transactions = history(*documents)
    assert len(transactions) > 20
    assert InvariantChecker().run({}, transactions) == []
