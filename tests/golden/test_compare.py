"""The comparison of recordings: free values may differ, and a violation of each rule is found."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.golden.compare import Difference, Listed, compare, listed, unlisted_and_vanished
from tests.golden.recording import FOLDER, SCENARIOS, Json, load

STATE_0 = "/brokers/topics/orders/partitions/0/state"
KILLED = "kill -9 broker 1"


@pytest.fixture
def killed() -> Json:
    return load("broker-killed")


def step(document: Json, name: str) -> Json:
    return next(step for step in document["steps"] if step["step"] == name)


def operations(document: Json, name: str, path: str) -> Iterator[Json]:
    for transaction in step(document, name)["txns"]:
        yield from (op for op in transaction.get("multi", [transaction]) if op.get("path") == path)


def requests(document: Json, name: str, key: str, to: int) -> list[Json]:
    return [request for request in step(document, name)["requests"] if (request["key"], request["to"]) == (key, to)]


def found(kafka: Json, ours: Json) -> list[tuple[str, str]]:
    return [(difference.step, difference.what) for difference in compare(kafka, ours)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_recording_equals_itself(scenario: str) -> None:
    assert compare(load(scenario), load(scenario)) == []


# ------------------------------------------------------------------ allowed differences


def test_independent_partitions_may_come_in_any_order(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    step(ours, KILLED)["txns"][1:] = reversed(step(ours, KILLED)["txns"][1:])
    for request in requests(ours, KILLED, "LEADER_AND_ISR", 0):
        request["request"]["topicStates"][0]["partitionStates"].reverse()
        request["request"]["liveLeaders"].reverse()
    for request in requests(ours, KILLED, "UPDATE_METADATA", 0):
        request["request"]["liveBrokers"].reverse()
    assert found(killed, ours) == []


def test_many_writes_may_share_a_transaction(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    transactions = step(ours, KILLED)["txns"]
    check, *_ = transactions[1]["multi"]
    together = [op for transaction in transactions[1:] for op in transaction["multi"] if op["op"] != "check"]
    step(ours, KILLED)["txns"] = [transactions[0], {"by": "broker 0", "multi": [check, *together]}]
    assert found(killed, ours) == []


def test_one_request_may_be_sent_as_two(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    sent = step(ours, KILLED)["requests"]
    first = requests(ours, KILLED, "UPDATE_METADATA", 2)[0]
    second = copy.deepcopy(first)
    states = first["request"]["topicStates"][0]["partitionStates"]
    second["request"]["topicStates"][0]["partitionStates"] = [states.pop()]
    sent.insert(sent.index(first) + 1, second)
    assert found(killed, ours) == []


def test_broker_epochs_may_differ_if_they_belong_to_the_same_registration(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for recorded in ours["steps"]:
        for request in recorded["requests"]:
            request["request"]["brokerEpoch"] += 1000
    assert found(killed, ours) == []


def test_any_surviving_broker_may_be_elected_controller() -> None:
    kafka = load("controller-killed")
    ours = copy.deepcopy(kafka)
    for recorded in ours["steps"][1:]:
        for transaction in recorded["txns"]:
            fenced = "multi" in transaction and transaction["multi"][0].get("path") in (
                "/controller_epoch",
                "/controller",
            )
            if transaction["by"] == "broker 2" and fenced:
                transaction["by"] = "broker 1"
            for op in transaction.get("multi", ()):
                if op.get("path") == "/controller":
                    op["data"]["brokerid"] = 1
        for request in recorded["requests"]:
            if request["request"].get("controllerId") == 2:
                request["request"]["controllerId"], request["client"] = 1, "1"
        recorded["tree"]["/controller"] = recorded["tree"]["/controller"].replace('"brokerid":2', '"brokerid":1')
    assert found(kafka, ours) == []


def test_the_last_requests_to_a_stopping_broker_may_differ() -> None:
    kafka = load("controlled-shutdown")
    ours = copy.deepcopy(kafka)
    step(ours, "SIGTERM broker 1")["requests"].remove(requests(ours, "SIGTERM broker 1", "UPDATE_METADATA", 1)[-1])
    assert found(kafka, ours) == []


def test_a_stopping_broker_receives_at_least_the_first_request() -> None:
    kafka = load("controlled-shutdown")
    ours = copy.deepcopy(kafka)
    sent = step(ours, "SIGTERM broker 1")["requests"]
    sent[:] = [request for request in sent if request["to"] != 1]
    assert found(kafka, ours) == [("SIGTERM broker 1", "to broker 1: LEADER_AND_ISR missing")]


def test_metadata_after_a_refused_isr_with_a_stopping_broker_may_be_repeated() -> None:
    kafka = load("controlled-shutdown")
    ours = copy.deepcopy(kafka)
    sent = step(ours, "SIGTERM broker 1")["requests"]
    first, *_, last = requests(ours, "SIGTERM broker 1", "UPDATE_METADATA", 2)
    again = copy.deepcopy(first)
    again["request"]["topicStates"][0]["partitionStates"].pop(0)
    sent.append(again)
    assert found(kafka, ours) != []
    proposal = copy.deepcopy(requests(ours, "broker 1 returns", "ALTER_PARTITION", 0)[0])
    proposal["response"]["topics"][0]["partitions"] = [{"partitionIndex": 4, "errorCode": 107}]
    sent.append(proposal)
    assert found(kafka, ours) != [], "other live brokers are a difference, whatever the partitions are"
    again["request"]["liveBrokers"] = last["request"]["liveBrokers"]
    assert found(kafka, ours) == []
    again["request"]["topicStates"][0]["partitionStates"][0]["leader"] = 7
    assert found(kafka, ours) != []


# ------------------------------------------------------------------ reported differences


def test_rule_1_trees_are_equal_byte_for_byte(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    tree = step(ours, KILLED)["tree"]
    tree[STATE_0] = tree[STATE_0].replace('"leader":0,"version":1', '"version":1,"leader":0')
    del tree["/feature"]
    tree["/brokers/ids"] = "  v1"
    assert found(killed, ours) == [
        (KILLED, "tree /brokers/ids"),
        (KILLED, f"tree {STATE_0}"),
        (KILLED, "tree /feature"),
    ]


def test_rule_2_a_znode_is_written_once_more_than_by_kafka(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    transactions = step(ours, KILLED)["txns"]
    transactions.append(transactions[-1])
    assert found(killed, ours) == [(KILLED, "writes of /brokers/topics/orders/partitions/2/state")]


def test_rule_2_a_znode_is_written_with_other_data(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for op in operations(ours, KILLED, STATE_0):
        op["data"]["isr"] = [2, 0]
    assert found(killed, ours) == [(KILLED, f"writes of {STATE_0}")]


def test_rule_2_a_znode_is_written_by_another_role(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for transaction in step(ours, KILLED)["txns"]:
        if any(op["path"] == STATE_0 for op in transaction.get("multi", ())):
            transaction["by"] = "broker 2"
    assert found(killed, ours) == [(KILLED, f"writes of {STATE_0}")]


@pytest.mark.parametrize("version", [None, 3])
def test_rule_3_a_write_lacks_the_check_of_the_controller_epoch(killed: Json, version: int | None) -> None:
    ours = copy.deepcopy(killed)
    for transaction in step(ours, KILLED)["txns"]:
        if any(op["path"] == STATE_0 for op in transaction.get("multi", ())):
            if version is None:
                transaction["multi"].pop(0)
            else:
                transaction["multi"][0]["version"] = version
    assert found(killed, ours) == [(KILLED, f"fence of {STATE_0}")]


def test_rule_4_a_request_is_missing(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    step(ours, KILLED)["requests"].remove(requests(ours, KILLED, "UPDATE_METADATA", 2)[0])
    whats = [what for _, what in found(killed, ours)]
    assert "to broker 2: UPDATE_METADATA missing" in whats
    assert all(what.startswith("to broker 2") for what in whats)


def test_rule_4_a_request_is_one_too_many(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    sent = step(ours, "create orders")["requests"]
    sent.append(requests(ours, "create orders", "LEADER_AND_ISR", 2)[0])
    assert found(killed, ours) == [("create orders", "to broker 2: LEADER_AND_ISR too many")]


def test_rule_4_requests_come_in_another_order_of_kinds(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    sent = step(ours, "create orders")["requests"]
    first, second = (
        sent.index(requests(ours, "create orders", key, 2)[0]) for key in ("LEADER_AND_ISR", "UPDATE_METADATA")
    )
    sent[first], sent[second] = sent[second], sent[first]
    assert [what for _, what in found(killed, ours)] != []


@pytest.mark.parametrize(
    ("field", "value"), [("controllerEpoch", 2), ("type", 1), ("isKRaftController", True), ("controllerId", 2)]
)
def test_rule_4_a_header_differs(killed: Json, field: str, value: object) -> None:
    ours = copy.deepcopy(killed)
    if field == "controllerEpoch":
        killed["steps"] = killed["steps"][:1]
        ours["steps"] = ours["steps"][:1]
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["request"][field] = value
    assert ("create orders", f"to broker 2: LEADER_AND_ISR.{field}") in found(killed, ours)


@pytest.mark.parametrize("field", ["leader", "leaderEpoch", "partitionEpoch", "controllerEpoch", "leaderRecoveryState"])
def test_rule_4_a_partition_differs(killed: Json, field: str) -> None:
    ours = copy.deepcopy(killed)
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["request"]["topicStates"][0]["partitionStates"][0][field] += 7
    whats = found(killed, ours)
    assert ("create orders", "to broker 2: LEADER_AND_ISR of orders-0") in whats
    assert {what for _, what in whats} <= {"to broker 2: LEADER_AND_ISR of orders-0", "phases"}


def test_rule_4_an_answer_differs(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["response"]["topics"][0]["partitionErrors"][0]["errorCode"] = 11
    assert found(killed, ours) == [("create orders", "to broker 2: LEADER_AND_ISR of orders-0")]


def test_rule_4_the_broker_epoch_of_another_registration(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for request in requests(ours, "broker 1 returns", "LEADER_AND_ISR", 1):
        request["request"]["brokerEpoch"] = requests(ours, "create orders", "LEADER_AND_ISR", 1)[0]["request"][
            "brokerEpoch"
        ]
    assert found(killed, ours) == [("broker 1 returns", "to broker 1: LEADER_AND_ISR.brokerEpoch")]


def test_rule_4_other_live_leaders(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["request"]["liveLeaders"].pop()
    assert found(killed, ours) == [("create orders", "to broker 2: LEADER_AND_ISR.liveLeaders")]


def test_rule_4_a_proposal_was_not_granted(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    proposal = requests(ours, "broker 1 returns", "ALTER_PARTITION", 0)[0]
    proposal["response"]["topics"][0]["partitions"][0]["errorCode"] = 95
    assert found(killed, ours) == [("broker 1 returns", "AlterPartition")]


def test_rule_5_a_state_is_sent_before_it_is_written(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    for number, transaction in enumerate((t for recorded in ours["steps"] for t in recorded["txns"]), start=1):
        transaction["zxid"] = number
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["zxid"] = 1_000
    assert found(killed, ours) == []
    for request in requests(ours, "create orders", "LEADER_AND_ISR", 2):
        request["zxid"] = 12
    assert {what for _, what in found(killed, ours)} == {"phases"}


def test_rule_5_a_state_was_never_written(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    step(ours, KILLED)["txns"] = [
        t for t in step(ours, KILLED)["txns"] if all(op["path"] != STATE_0 for op in t.get("multi", ()))
    ]
    assert ("kill -9 broker 1", "phases") in found(killed, ours)


def test_a_tool_fails_that_succeeded_with_kafka() -> None:
    kafka = load("create-topic")
    ours = copy.deepcopy(kafka)
    step(ours, "create again: exists")["rc"] = 0
    assert found(kafka, ours) == [("create again: exists", "outcome")]


def test_steps_have_to_be_the_same(killed: Json) -> None:
    ours = copy.deepcopy(killed)
    ours["steps"].pop()
    assert found(killed, ours) == [("broker 1 returns", "not performed")]
    ours["steps"][0]["step"] = "another"
    assert found(killed, ours) == [("*", "the steps themselves")]


# ------------------------------------------------------------------ the list of deliberate differences

FOUND = [Difference("a", "one", "tree /x"), Difference("a", "two", "tree /y")]


def test_an_unlisted_difference_fails() -> None:
    unlisted, vanished = unlisted_and_vanished(FOUND, [Listed("a", "one", "tree /x", "because")])
    assert (unlisted, vanished) == ([FOUND[1]], [])


def test_a_listed_difference_that_no_longer_occurs_fails() -> None:
    gone = Listed("a", "three", "tree /x", "because")
    unlisted, vanished = unlisted_and_vanished(
        FOUND, [Listed("*", "*", "tree /x", "because"), Listed("a", "*", "tree /y", "because"), gone]
    )
    assert (unlisted, vanished) == ([], [gone])


def test_every_listed_difference_has_a_reason() -> None:
    for entry in listed(FOLDER / "differences.toml"):
        assert entry.scenario in (*SCENARIOS, "*")
        assert len(entry.why) > 40
        if entry.scenario != "*" and entry.step != "*":
            assert entry.step in [step["step"] for step in load(entry.scenario)["steps"]]
