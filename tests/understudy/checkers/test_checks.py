"""Every check has a history it must accept and one it must reject (T4)."""

from __future__ import annotations

import re

import pytest

from tests.understudy.checkers import controller_stories, partition_stories, topic_stories, zookeeper_stories
from tests.understudy.checkers.histories import ACCEPTED, REJECTED, History, Story, cluster
from understudy.checkers.verdict import ALL_CHECKS, Judge

STORIES = (controller_stories, partition_stories, topic_stories, zookeeper_stories)


@pytest.mark.parametrize(
    ("check", "story"), [pytest.param(*case, id=f"{case[0]}-{case[1].__name__}") for case in ACCEPTED]
)
def test_accepts(check: str, story: Story) -> None:
    assert story().witness(check) is None


@pytest.mark.parametrize(
    ("check", "because", "story"), [pytest.param(*case, id=f"{case[0]}-{case[2].__name__}") for case in REJECTED]
)
def test_rejects(check: str, because: str, story: Story) -> None:
    assert because in (story().witness(check) or f"{check} saw nothing wrong")


def test_every_check_is_tried_both_ways() -> None:
    ids = {check.id for check in ALL_CHECKS}
    assert ids == {check for check, _ in ACCEPTED}
    assert ids == {check for check, _, _ in REJECTED}


def test_every_story_is_told() -> None:
    told = {story for _, story in ACCEPTED} | {story for _, _, story in REJECTED}
    for module in STORIES:
        written = {
            value for value in vars(module).values() if getattr(value, "__annotations__", None) == {"return": "History"}
        }
        assert written - told - {cluster} == set()


def test_every_check_has_an_id_and_says_what_holds() -> None:
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)
    for check in ALL_CHECKS:
        assert re.fullmatch(r"[ACPRZ]\d+[a-c]?", check.id)
        assert check.sentence
        assert not check.sentence.endswith(".")
        assert check.reads or check.reads_transactions


def test_a_healthy_cluster_violates_nothing() -> None:
    assert cluster().violated() == []


def test_the_first_witness_is_kept() -> None:
    history = cluster()
    history.state(1, 1, [2, 3])
    history.state(1, 2, [3])
    (violation,) = [found for found in Judge().run(history.records, history.transactions) if found.check == "P1"]
    assert violation.where == f"zxid {history.zxid - 1}"
    assert str(violation) == (
        "P1 violated at zxid 8: t-0: leader 1 is not in ISR [2, 3]. "
        "It should hold that a partition's leader is in its ISR, or there is none"
    )


def test_a_judge_hears_a_run_as_it_happens() -> None:
    history = cluster()
    history.log(2, controller_stories.metadata(2), controller_stories.metadata(1))
    judge = Judge()
    for transaction in history.transactions:
        judge.transaction(transaction)
    for record in history.records["broker-2"]:
        judge.record(record)
    assert [violation.check for violation in judge.violations()] == ["C4a"]


def test_what_no_kafka_would_write_is_survived() -> None:
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
