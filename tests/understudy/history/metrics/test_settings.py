"""The settings of a run: as its records describe it, or derived from others."""

from __future__ import annotations

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller
from understudy.foundation.eventlog.records import (
    ControllerReady,
    Payload,
    ProcessStarted,
    RunDescribed,
    SessionOpened,
)
from understudy.history.metrics.metric_tables import Settings
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read_lines

NOTHING = Settings(
    mode=None,
    world=None,
    brokers=None,
    partitions=None,
    session_timeout_ms=None,
    seed=None,
    fault=None,
    software_version=None,
    software_commit=None,
)


def settings(*entries: tuple[str, Payload]) -> Settings:
    logs = Logs()
    for number, (node, payload) in enumerate(entries):
        logs.at(1000 + number, node, payload)
    return measure(logs.run, read_lines(logs.lines).records).settings


def ready(partitions: int) -> ControllerReady:
    return ControllerReady(epoch=1, brokers=(1,), topics=1, partitions=partitions, took_ms=0)


def test_a_described_run_has_the_settings_of_its_record() -> None:
    described = RunDescribed(
        world="simulator",
        brokers=3,
        partitions=0,
        session_timeout_ms=6000,
        seed=7,
        fault="kill",
        software_version="0.1.0",
        software_commit="abc",
    )
    opened = SessionOpened(session_id=1, timeout_ms=4000)
    assert settings(
        ("simulator", described), ("broker-1", started("understudy")), ("broker-1", ready(5)), ("broker-1", opened)
    ) == Settings(
        mode="understudy",
        world="simulator",
        brokers=3,
        partitions=0,
        session_timeout_ms=6000,
        seed=7,
        fault="kill",
        software_version="0.1.0",
        software_commit="abc",
    )


def test_each_setting_is_that_of_the_first_record_that_has_it() -> None:
    first = RunDescribed(world="", brokers=3, seed=1)
    second = RunDescribed(world="processes", brokers=5, seed=2, fault="pause")
    row = settings(("testbed", first), ("testbed", second))
    assert (row.world, row.brokers, row.seed, row.fault) == ("processes", 3, 1, "pause")


def test_settings_that_no_record_describes_are_derived() -> None:
    entries: list[tuple[str, Payload]] = [
        ("broker-1", ready(0)),
        ("broker-2", ready(12)),
        ("broker-10", ready(9)),
        ("broker-1", SessionOpened(session_id=1, timeout_ms=4000)),
        ("broker-2", SessionOpened(session_id=2, timeout_ms=6000)),
        ("zookeeper", RunDescribed()),
        ("broker-x", RunDescribed()),
    ]
    row = settings(*entries)
    assert (row.brokers, row.partitions, row.session_timeout_ms) == (3, 12, 6000)
    assert (row.world, row.seed, row.fault, row.software_version, row.software_commit) == (None,) * 5


def started(software: str, role: str = "broker") -> ProcessStarted:
    return ProcessStarted(role=role, software=software)


@pytest.mark.parametrize(
    ("payloads", "mode"),
    [
        ([started("", "testbed"), started("understudy")], "understudy"),
        ([started("", "testbed"), started("Apache Kafka")], "kafka-zk"),
        ([started("Apache Kafka"), started("understudy", "client")], "kafka-zk"),
        ([RunDescribed(), started("Apache Kafka"), RunDescribed(is_kraft=True)], "kafka-kraft"),
        ([RunDescribed(is_kraft=True)], "kafka-kraft"),
        ([started("", "testbed"), started("another", "client")], None),
    ],
)
def test_the_mode_is_derived_from_the_software_that_has_left_the_records(
    payloads: list[Payload], mode: str | None
) -> None:
    assert settings(*((f"broker-{number}", payload) for number, payload in enumerate(payloads))).mode == mode


@pytest.mark.parametrize("payload", [RunDescribed(), ready(0)])
def test_what_no_record_has_is_not_known(payload: Payload) -> None:
    """A controller that was ready before any topic was created does not mean that the cluster had no partition."""
    assert msgspec.structs.replace(settings(("testbed", payload)), doubt=()) == NOTHING


def test_the_settings_of_a_run_of_an_earlier_release_are_derived() -> None:
    row = measure("run-1", read_lines(killed_controller().lines).records).settings
    assert (row.brokers, row.partitions, row.session_timeout_ms, row.world) == (3, 2, None, None)
