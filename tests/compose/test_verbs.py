"""Tests of `understudy VERB --compose` on an engine: each fault takes effect, is on record, and can be undone."""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.compose.compose_cluster import ComposeCluster, eventually
from understudy.cli.main import main
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.reader import read

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a test, the start of its cluster and a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]

SESSION_ENDS = "15s"
"""Longer than the session timeout of the brokers."""


@pytest.fixture
def whole(cluster: ComposeCluster) -> ComposeCluster:
    """The cluster, whole; skips if this user may not write beside the event logs of the containers."""
    eventually(cluster.is_whole, "three brokers and a controller")
    events = cluster.run_folder / "testbed" / "events"
    if not os.access(events, os.W_OK):
        pytest.skip(f"{events} belongs to the user of the containers")
    return cluster


def verb(cluster: ComposeCluster, name: str, target: str, *flags: str) -> int:
    return main([name, str(cluster.run_folder.parents[1]), target, "--compose", *flags])


def faults(cluster: ComposeCluster) -> list[tuple[str, str, str]]:
    found = read([cluster.run_folder / "testbed"]).records
    in_order = sorted(found, key=lambda record: (record.incarnation, record.seq))
    data = [record.data for record in in_order if isinstance(record.data, FaultInjected)]
    return [(fault.fault, fault.target, fault.role) for fault in data]


def has_another_controller(cluster: ComposeCluster, before: int) -> bool:
    return cluster.status()["controller"] not in (None, before)


def test_a_killed_controller_is_replaced_and_started_again(whole: ComposeCluster) -> None:
    before = whole.status()["controller"]
    assert verb(whole, "kill", "controller") == 0
    assert faults(whole)[-1] == ("kill", f"broker-{before}", "controller")
    eventually(partial(has_another_controller, whole, before), "another broker is controller")
    assert verb(whole, "kill", str(before)) == 1
    assert verb(whole, "start", str(before)) == 0
    eventually(whole.is_whole, "the killed broker is back")
    assert whole.violations() == ""


@pytest.mark.parametrize(("name", "undone"), [("pause", "resume"), ("isolate", "heal")])
def test_a_fault_with_a_duration_deposes_the_controller_and_ends(whole: ComposeCluster, name: str, undone: str) -> None:
    before, epoch = whole.status()["controller"], whole.status()["controller_epoch"]
    assert verb(whole, name, "controller", "--for", SESSION_ENDS) == 0
    assert faults(whole)[-2:] == [(name, f"broker-{before}", "controller"), (undone, f"broker-{before}", "")]
    eventually(whole.is_whole, "the broker is back")
    assert whole.status()["controller_epoch"] > epoch
    assert whole.violations() == ""


def test_a_deposed_controller_is_replaced(whole: ComposeCluster) -> None:
    epoch = whole.status()["controller_epoch"]
    assert verb(whole, "depose", "controller") == 0
    eventually(lambda: whole.status()["controller_epoch"] > epoch, "a controller was elected")
    assert faults(whole)[-1][0] == "depose"
