"""Each check accepts and rejects the histories it must, and has at least one of each (T4)."""

from __future__ import annotations

import re

import pytest

from tests.understudy.checks import (
    channel_histories,
    compaction_histories,
    controller_histories,
    led_again_histories,
    partition_histories,
    quorum_histories,
    replication_histories,
    topic_histories,
    zookeeper_histories,
)
from tests.understudy.checks.histories import ACCEPTED, REJECTED, History, WriteHistory, cluster
from understudy.checks import quorum
from understudy.checks.facts import ClusterFacts
from understudy.checks.invariant_checker import ALL_CHECKS, InvariantChecker
from understudy.foundation.eventlog.records import RunDescribed

MODULES = (
    channel_histories,
    compaction_histories,
    controller_histories,
    led_again_histories,
    partition_histories,
    quorum_histories,
    replication_histories,
    topic_histories,
    zookeeper_histories,
)

BEGINNINGS = {
    cluster,
    replication_histories.three_replicas,
    replication_histories.clean_failover,
    replication_histories.unclean_failover,
    quorum_histories.quorum,
    led_again_histories.led_again,
    led_again_histories.next_epoch,
    led_again_histories.follows_with_the_later_beginning,
    compaction_histories.two_epochs,
}
"""The histories with which others begin."""


@pytest.mark.parametrize(
    ("check", "write"), [pytest.param(*case, id=f"{case[0]}-{case[1].__name__}") for case in ACCEPTED]
)
def test_a_check_accepts_the_history(check: str, write: WriteHistory) -> None:
    assert write().witness(check) is None


@pytest.mark.parametrize(
    ("check", "witness", "write"), [pytest.param(*case, id=f"{case[0]}-{case[2].__name__}") for case in REJECTED]
)
def test_a_check_rejects_the_history(check: str, witness: str, write: WriteHistory) -> None:
    assert witness in (write().witness(check) or f"{check} found no violation")


def test_every_check_has_a_history_to_accept_and_one_to_reject() -> None:
    ids = {check.id for check in ALL_CHECKS}
    assert ids == {check for check, _ in ACCEPTED}
    assert ids == {check for check, _, _ in REJECTED}


def test_every_history_is_given_to_a_check() -> None:
    used = {write for _, write in ACCEPTED} | {write for _, _, write in REJECTED}
    for module in MODULES:
        defined = {
            value for value in vars(module).values() if getattr(value, "__annotations__", None) == {"return": "History"}
        }
        assert defined - used - BEGINNINGS == set()


def test_every_check_has_an_id_and_a_sentence() -> None:
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)
    for check in ALL_CHECKS:
        assert re.fullmatch(r"[ACLPQRZ]\d+[a-c]?", check.id)
        assert check.sentence
        assert not check.sentence.endswith(".")
        assert check.reads or check.reads_transactions


def test_a_healthy_cluster_violates_nothing() -> None:
    assert cluster().violated() == []


def test_the_first_violation_is_kept() -> None:
    history = cluster()
    history.state(1, 1, [2, 3])
    history.state(1, 2, [3])
    (violation,) = [
        found for found in InvariantChecker().run(history.records, history.transactions) if found.check == "P1"
    ]
    assert violation.where == f"zxid {history.zxid - 1}"
    assert str(violation) == (
        "P1 violated at zxid 8: t-0: leader 1 is not in ISR [2, 3]. "
        "It should hold that a partition's leader is in its ISR, or the partition has no leader"
    )


def test_a_run_is_checked_while_it_proceeds() -> None:
    history = cluster()
    history.log(2, controller_histories.metadata(2), controller_histories.metadata(1))
    checker = InvariantChecker()
    for transaction in history.transactions:
        checker.transaction(transaction)
    for record in history.records["broker-2"]:
        checker.record(record)
    assert [violation.check for violation in checker.violations()] == ["C4a"]


def test_znodes_that_kafka_would_not_write_are_ignored() -> None:
    history = cluster()
    for path in (
        "/brokers/ids/x",
        "/brokers/topics/t/partitions/x/state",
        "/brokers/topics/t/state",
        "/brokers/topics//x",
    ):
        history.commit(0xFF, history.create(path, "garbage"))
    for path in ("/brokers/topics/t", "/brokers/topics/t/partitions/0/state", "/controller_epoch"):
        history.commit(0xFF, history.set(path, "garbage"))
    history.commit(0xFF, history.delete("/controller"))
    history.commit(0xFF, history.create("/controller", [1], owner=0xFF))
    assert history.violated() == []


def test_an_empty_run_violates_nothing() -> None:
    assert History().violated() == []


def test_checks_of_a_quorum_keep_nothing_of_a_run_that_names_its_world() -> None:
    """A soak checks records for days."""
    history = quorum_histories.quorum(is_kraft=False)
    history.log(1, RunDescribed(world="processes"), quorum_histories.changed((1, 2, 3)))
    for check in (each(ClusterFacts()) for each in quorum.CHECKS):
        for record in history.records["broker-1"]:
            check.on_record(record)
        assert not vars(check)["_records"]
