"""What a tool leaves to chance is no difference between two recordings made with tools; everything around it is."""

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
    """A copy in which `broker` did everything in one step."""
    ours = copy.deepcopy(document)
    for transaction in step(ours, step_name)["txns"]:
        transaction["by"] = f"broker {broker}"
    return ours


@pytest.mark.parametrize("broker", [0, 1])
@pytest.mark.parametrize("name", [DELETED, "cluster default add"])
def test_any_one_broker_may_have_been_asked(configs: Json, name: str, broker: int) -> None:
    ours = written_by(broker, configs, name)
    assert differing(configs, ours) == set()
    assert differing(configs, ours, tools_choose=False) or ours == configs


def test_but_two_may_not_share_the_work(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    step(ours, DELETED)["txns"][-1]["by"] = "broker 1"
    assert differing(configs, ours) == {"writes of /config/topics/orders", f"writes of {NOTIFIED}"}


def test_nor_the_controller_do_it_as_the_controller(configs: Json) -> None:
    ours = written_by(0, configs, DELETED)
    step(ours, DELETED)["txns"][0]["multi"][0] = {"op": "check", "path": "/controller_epoch", "version": 2}
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_nor_somebody_who_is_no_broker(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    for transaction in step(ours, DELETED)["txns"]:
        transaction["by"] = "session f"
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_nor_twice(configs: Json) -> None:
    ours = copy.deepcopy(configs)
    transactions = step(ours, DELETED)["txns"]
    transactions.append(transactions[0])
    assert "writes of /config/topics/orders" in differing(configs, ours)


def test_the_config_of_one_broker_is_that_brokers_to_write(configs: Json) -> None:
    assert "writes of /config/brokers/1" in differing(configs, written_by(2, configs, "broker config add"))


def test_a_topics_first_config_is_the_controllers_to_write(configs: Json) -> None:
    assert "writes of /config/topics/orders" in differing(configs, written_by(1, configs, "create orders"))


@pytest.mark.parametrize("order", [*itertools.permutations("0123")])
def test_brokers_asked_at_once_answer_in_any_order(order: tuple[str, ...]) -> None:
    kafka = load("reassignment")
    ours = with_entities(kafka, [*(f"brokers/{broker}" for broker in order), "topics/orders"])
    assert differing(kafka, ours) == set()


def test_but_what_is_asked_later_comes_later() -> None:
    kafka = load("reassignment")
    ours = with_entities(kafka, ["brokers/0", "topics/orders", "brokers/1", "brokers/2", "brokers/3"])
    assert f"tree {NOTIFIED}" in differing(kafka, ours)


def with_entities(document: Json, entities: list[str]) -> Json:
    """A copy in which the five notifications of a verification name these entities, in this order; each by who made its
    own."""
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
