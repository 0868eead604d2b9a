"""Tests of `choices`: choices of tools are no differences between two recordings made with tools, anything else is."""

from __future__ import annotations

import copy
import itertools

import pytest

from tests.golden.compare import compare
from tests.golden.recording import Json, load
from tests.golden.test_compare import step

DELETED = "topic config delete"
NOTIFIED = "/config/changes/config_change_0000000001"


@pytest.fixture
def configs() -> Json:
    return load("configs")


def differing(kafka: Json, ours: Json, *, tools_choose: bool = True) -> set[str]:
    return {difference.what for difference in compare(kafka, ours, tools_choose=tools_choose)}


def written_by(broker: int, document: Json, step_name: str) -> Json:
    """A copy of a recording in which `broker` wrote all transactions of one step."""
    ours = copy.deepcopy(document)
    for transaction in step(ours, step_name)["txns"]:
        transaction["by"] = f"broker {broker}"
    return ours


@pytest.mark.parametrize("broker", [0, 1])
@pytest.mark.parametrize("name", [DELETED, "cluster default add"])
def test_any_one_broker_may_alter_a_topic_or_default_config(configs: Json, name: str, broker: int) -> None:
    ours = written_by(broker, configs, name)
    assert differing(configs, ours) == set()
    assert differing(configs, ours, tools_choose=False) or ours == configs


def test_two_brokers_writing_config_and_notification_are_a_difference(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    step(ours, DELETED)["txns"][-1]["by"] = "broker 1"
    assert differing(configs, ours) == {"writes of /config/topics/orders", f"writes of {NOTIFIED}"}


def test_a_config_written_with_the_controllers_epoch_check_is_a_difference(configs: Json) -> None:
    ours = written_by(0, configs, DELETED)
    step(ours, DELETED)["txns"][0]["multi"][0] = {"op": "check", "path": "/controller_epoch", "version": 2}
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_a_config_written_by_another_session_is_a_difference(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    for transaction in step(ours, DELETED)["txns"]:
        transaction["by"] = "session f"
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_a_config_written_twice_is_a_difference(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    transactions = step(ours, DELETED)["txns"]
    transactions.append(transactions[0])
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_a_brokers_config_written_by_another_broker_is_a_difference(configs: Json) -> None:
    assert "writes of /config/brokers/1" in differing(configs, written_by(2, configs, "broker config add"))


def test_a_new_topics_config_written_by_another_broker_is_a_difference(configs: Json) -> None:
    assert "writes of /config/topics/orders" in differing(configs, written_by(1, configs, "create orders"))


@pytest.mark.parametrize("order", [*itertools.permutations("0123")])
def test_concurrent_notifications_of_broker_configs_may_come_in_any_order(order: tuple[str, ...]) -> None:
    kafka = load("reassignment")
    ours = with_entities(kafka, [*(f"brokers/{broker}" for broker in order), "topics/orders"])
    assert differing(kafka, ours) == set()


def test_notifications_in_another_order_of_requests_are_a_difference() -> None:
    kafka = load("reassignment")
    ours = with_entities(kafka, ["brokers/0", "topics/orders", "brokers/1", "brokers/2", "brokers/3"])
    assert f"tree {NOTIFIED}" in differing(kafka, ours)


def with_entities(document: Json, entities: list[str]) -> Json:
    """A copy in which the five notifications of a verification are for these entities, in this order; each is still
    written by the broker that wrote it for that entity."""
    ours = copy.deepcopy(document)
    made = [t for t in step(ours, "verify")["txns"] if t.get("path", "").startswith("/config/changes/")]
    whose = {transaction["data"]["entity_path"]: transaction["by"] for transaction in made}
    for number, (transaction, entity) in enumerate(zip(made, entities, strict=True)):
        transaction |= {"data": {"version": 2, "entity_path": entity}, "by": whose[entity]}
        for recorded in ours["steps"]:
            path = f"/config/changes/config_change_{number:010d}"
            if path in recorded["tree"]:
                recorded["tree"][path] = f'{{"version":2,"entity_path":"{entity}"}}  v0'
    return ours
