"""Tests of elections that are repeated when unclean leader election is enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.controller.harness import SETTINGS, ControllerHarness
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch


class Dynamic:
    """The controller's current broker config."""

    allowed = False


def leaderless(config: Dynamic) -> ControllerHarness:
    """Broker 1, the only ISR member of two topics, is offline; broker 2 is online."""
    harness = ControllerHarness(settings=replace(SETTINGS, unclean_leader_election_enabled=lambda: config.allowed))
    harness.start()
    for topic in ("orders", "payments"):
        harness.create_topic(topic, {0: [1, 2]})
    harness.broker(2).crash()
    harness.broker(1).crash()
    harness.broker(2).start()
    harness.settle()
    harness.clear_history()
    return harness


def leaders(harness: ControllerHarness) -> list[int]:
    states = [harness.state(topic, 0) for topic in ("orders", "payments")]
    return [known.leader_and_isr.leader for known in states if isinstance(known, LeaderIsrAndControllerEpoch)]


async def call(what: Callable[[], None]) -> None:
    what()


@pytest.mark.spec("PSM-8", "PSM-17")
def test_current_unclean_default_applies_to_topics_without_config() -> None:
    config = Dynamic()
    with leaderless(config) as harness:
        harness.operator.run(
            harness.operator.zk.configs.write("topics", "payments", {"unclean.leader.election.enable": "false"})
        )
        controller = harness.broker(0)
        enabled = controller.controller.unclean_leader_election_enabled
        controller.run(call(enabled))
        harness.settle()
        assert leaders(harness) == [-1, -1], "the event asks to look; what is allowed is read when the election is held"
        config.allowed = True
        controller.run(call(enabled))
        harness.settle()
        assert leaders(harness) == [2, -1]


@pytest.mark.spec("PSM-8", "PSM-17")
def test_unclean_election_enabled_for_one_topic() -> None:
    with leaderless(Dynamic()) as harness:
        for topic in ("orders", "payments"):
            harness.operator.run(
                harness.operator.zk.configs.write("topics", topic, {"unclean.leader.election.enable": "true"})
            )
        controller = harness.broker(0)
        controller.run(call(lambda: controller.controller.topic_unclean_leader_election_enabled("payments")))
        harness.settle()
        assert leaders(harness) == [-1, 2]
