"""Every fence and every fix is asked for in the code, and is hit: by a seed, or by a test of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.pages.source import ROOT
from tests.brokers.parts import Recorder
from understudy.foundation.eventlog.fences import SWITCHES, Fence, Fences, Switch
from understudy.foundation.eventlog.rules import Fix, Rule, Rules
from understudy.trials.seeds.seeds import run_seed

SWITCHED_IN = ("controller", "brokers", "foundation/zk")

SEEDS = range(12)

TESTED_ALONE: dict[Switch, str] = {
    Fence.ZK_CONTROLLER_EPOCH: "tests/foundation/zk/test_transactions.py",
    Fence.STATE_CONTROLLER_EPOCH: "tests/simulation/test_fences.py",
    Fence.BROKER_CONTROLLER_EPOCH: "tests/brokers/apis/test_control_requests.py",
    Fence.BROKER_LEADER_EPOCH: "tests/brokers/replication/test_replica_manager.py",
    Fence.REQUEST_BROKER_EPOCH: "tests/simulation/test_fences.py",
    Fence.ALTER_PARTITION_EPOCHS: "tests/simulation/test_fences.py",
    Fix.KAFKA_1387: "tests/foundation/zk/test_kafka_zk_client.py",
    Fix.KAFKA_7165: "tests/foundation/zk/test_kafka_zk_client.py",
    Fix.KAFKA_9839: "tests/brokers/apis/test_control_requests.py",
    Fix.KAFKA_13225: "tests/controller/test_switched_off.py",
    Fix.KAFKA_14140: "tests/controller/test_switched_off.py",
    Fix.KAFKA_14144: "tests/controller/test_switched_off.py",
    Fix.KAFKA_14154: "tests/controller/test_switched_off.py",
    Fix.KIP_106: "understudy/trials/experiments/scenarios/last-replica-standing.yaml",
    Fix.KIP_279: "tests/brokers/apis/test_offset_for_leader_epoch.py",
    Fix.KIP_380: "understudy/trials/experiments/scenarios/blink.yaml",
    Fix.KIP_570: "tests/brokers/replication/test_replica_manager.py",
}
"""Switches that seeds hit seldom or never, with the file of the test or experiment that switches each off."""


def code_name(switch: Switch) -> str:
    return f"{type(switch).__name__}.{switch.name}"


def test_every_switch_is_asked_for_where_it_decides() -> None:
    sources = [path.read_text() for folder in SWITCHED_IN for path in (ROOT / folder).rglob("*.py")]
    fences = {name for text in sources for name in re.findall(r"\bFence\.([A-Z0-9_]+)", text)}
    assert fences == {fence.name for fence in Fence}
    rules = {name for text in sources for name in re.findall(r"rules\.(\w+)", text)}
    assert set(vars(Fences(Recorder().log).rules)) <= rules


def test_every_fix_has_one_rule() -> None:
    made: list[Fix] = []

    def rule(fix: Fix) -> Rule:
        made.append(fix)
        return Rule(holds=True, decides=lambda _: None)

    Rules(rule)
    assert made == list(Fix)


@pytest.mark.parametrize("switch", TESTED_ALONE, ids=lambda switch: switch.value)
def test_a_switch_that_seeds_hit_seldom_has_a_test_of_its_own(switch: Switch) -> None:
    text = Path(ROOT / TESTED_ALONE[switch]).read_text()
    assert code_name(switch) in text or f"{switch.value}: {{breaks: " in text


def test_seeds_hit_every_other_switch() -> None:
    left = [switch for switch in SWITCHES.values() if switch not in TESTED_ALONE]
    for seed in SEEDS:
        hits = run_seed(seed).judgement.fence_hits
        left = [switch for switch in left if not hits[switch]]
        if not left:
            return
    assert not left, "no seed has reached these switches"
