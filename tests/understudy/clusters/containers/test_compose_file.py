"""The compose project of a cluster: what its containers may do, and where they can be reached."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from tests.compose.compose_cluster import ROOT
from understudy.clusters.containers.compose_file import HOME, ComposePlan

PLAN = ComposePlan(
    project="understudy-mine-1",
    folder=Path("/runs/a $run"),
    image="understudy",
    user="1000:1000",
    zookeeper_port=11_000,
    broker_ports={1: 11_001, 2: 11_002},
    environment={"MINE": "yes"},
)
SERVICES = PLAN.config()["services"]


def test_the_file_has_zookeeper_and_each_broker() -> None:
    assert list(SERVICES) == ["zookeeper", "broker-1", "broker-2"]
    found = yaml.safe_load(PLAN.text().replace("$$", "$"))
    assert found == PLAN.config()


def test_a_dollar_is_escaped_for_compose() -> None:
    assert "/runs/a $$run/broker-1" in PLAN.text()
    assert PLAN.text().count("$") == 2 * len(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_every_port_is_published_on_the_loopback_interface_alone(service: str) -> None:
    (port,) = SERVICES[service]["ports"]
    assert port["host_ip"] == "127.0.0.1"
    assert int(port["published"]) in (11_000, 11_001, 11_002)


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_may_do_no_more_than_one_of_the_repositorys_compose_file(service: str) -> None:
    repository = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["x-service"]
    for key in ("init", "cap_drop", "security_opt"):
        assert SERVICES[service][key] == repository[key]
    assert SERVICES[service]["pull_policy"] == "never"
    assert SERVICES[service]["restart"] == "no"


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_its_folder_of_the_run_folder_and_no_other(service: str) -> None:
    (mounted,) = SERVICES[service]["volumes"]
    assert mounted == {"type": "bind", "source": f"/runs/a $run/{service}", "target": HOME}


def test_a_broker_is_reached_by_clients_of_this_machine_and_by_the_others() -> None:
    found = PLAN.properties_of(2)
    assert found["advertised.listeners"] == "EXTERNAL://127.0.0.1:11002,INTERNAL://broker-2:9092"
    assert found["inter.broker.listener.name"] == "INTERNAL"
    assert found["zookeeper.connect"] == "zookeeper:2181"
    assert found["understudy.events.dir"] == f"{HOME}/events"


def test_brokers_alone_have_the_environment_variables() -> None:
    assert {name: service.get("environment") for name, service in SERVICES.items()} == {
        "zookeeper": None,
        "broker-1": {"MINE": "yes"},
        "broker-2": {"MINE": "yes"},
    }


def test_another_user_changes_only_the_user() -> None:
    changed = dataclasses.replace(PLAN, user="0:0").config()["services"]["broker-1"]
    assert changed["user"] == "0:0"
    assert {**changed, "user": "1000:1000"} == SERVICES["broker-1"]
