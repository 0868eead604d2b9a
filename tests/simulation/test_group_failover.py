"""Members of a group read and commit while their coordinator is killed, returns, and members come and go."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from understudy.brokers.coordinator.group.group_offsets import GroupOffsets
from understudy.checks.client_history import SendOutcome
from understudy.checks.group_records import add_records
from understudy.checks.groups import check_groups
from understudy.clusters.clients.assignors.protocol import PROTOCOLS
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java import java_hash
from understudy.foundation.eventlog.records import GroupsLoaded
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

PARTITIONS = 6
OFFSETS_PARTITIONS = 3
SETTINGS = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS), "group.initial.rebalance.delay.ms": "500"}
GROUP = "readers"
OFFSETS_PARTITION = abs(java_hash(GROUP)) % OFFSETS_PARTITIONS


class Run:
    """A cluster with a producer and a group of members, and what they have seen."""

    def __init__(self, seed: int, assignor: str) -> None:
        self.cluster = SimulatedCluster(seed, settings=SETTINGS)
        self.cluster.start()
        self.cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        self.cluster.settle()
        bootstrap = [f"{broker.node.name}:{PORT}" for broker in self.cluster.brokers]
        network, clock = self.cluster.client_network, self.cluster.simulator.clock
        partitions = [TopicPartition("orders", number) for number in range(PARTITIONS)]
        self._records = ClientLoad(network, clock, lambda: bootstrap, partitions)
        self.group = GroupLoad(network, clock, lambda: bootstrap)
        self._assignor = assignor
        self.cluster.begin(self.group.watch(GROUP, partitions))
        self.cluster.begin(self._records.produce("producer", ALL_ACKS, random.Random(seed), gap_s=(0.1, 0.3)))

    def join(
        self, name: str, *, until: Callable[[], bool] = lambda: False, leaves: bool = True, instance: str | None = None
    ) -> None:
        settings = MemberSettings(
            group_id=GROUP,
            topics=("orders",),
            assignors=(self._assignor,),
            instance_id=instance,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
        )
        self.cluster.begin(self.group.run(name, settings, until=until, leaves=leaves))

    def coordinator(self) -> int:
        leader = self.cluster.leader_id("__consumer_offsets", OFFSETS_PARTITION)
        assert leader is not None
        return leader

    def end(self) -> list[str]:
        """Let the cluster and the group settle; return what the checks find."""
        self.cluster.settle()
        self._records.is_stopping = True
        self.cluster.run_for(20_000)
        self.cluster.ask(self.group.note_last_states())
        self.group.is_stopping = True
        self.cluster.run_for(5_000)
        self.cluster.ask(self.group.fetch_at_end())
        self.cluster.close()
        add_records(self.group.history, map(decode_record, self.cluster.log_lines))
        assert self.group.history.may_have_lost == set()
        judgement = check_groups(self.group.history)
        assert all(judgement.times_tested.values()), judgement.times_tested
        return [*map(str, judgement.violations), *judge(self.cluster).problems]


@pytest.mark.parametrize("assignor", PROTOCOLS)
def test_offsets_and_owners_survive_the_end_of_the_coordinator(assignor: str) -> None:
    run = Run(7, assignor)
    run.join("a")
    run.join("b")
    run.cluster.run_for(15_000)
    before = run.coordinator()
    run.cluster.broker(before).kill()
    run.cluster.run_for(3_000)
    stays = [True]
    run.join("c", until=lambda: not stays[0])
    run.cluster.run_for(15_000)
    assert run.coordinator() != before
    run.cluster.broker(before).start()
    run.cluster.run_for(10_000)
    stays.clear()
    stays.append(False)
    run.cluster.run_for(10_000)
    assert run.end() == []
    history = run.group.history
    assert {state.name for state in history.last} == {"a", "b"}
    after_kill = [fetch for fetch in history.fetches if fetch.began_ms > 20_000]
    assert any(fetch.offset > 0 for fetch in after_kill), "the members went on where the offsets said"
    assert sum(each.outcome is SendOutcome.OK for each in history.commits) > 50
    loaded = [decode_record(line).data for line in run.cluster.log_lines if b'"GroupsLoaded"' in line]
    assert any(isinstance(each, GroupsLoaded) and each.groups and each.offsets for each in loaded)


def test_coordinator_that_loads_no_offsets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupOffsets, "load", lambda self, offsets: None)
    run = Run(7, "range")
    run.join("a")
    run.join("b")
    run.cluster.run_for(15_000)
    run.cluster.broker(run.coordinator()).kill()
    run.cluster.run_for(15_000)
    assert [problem.partition(" ")[0] for problem in run.end()] == ["G1"]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_coordinator_that_ends_while_a_group_rebalances(assignor: str) -> None:
    run = Run(11, assignor)
    run.join("a")
    run.join("b")
    run.cluster.run_for(15_000)
    run.join("c")
    run.cluster.run_for(200)
    killed = run.coordinator()
    run.cluster.broker(killed).kill()
    run.cluster.run_for(20_000)
    run.cluster.broker(killed).start()
    run.cluster.run_for(10_000)
    assert run.end() == []
    assert {len(state.partitions) for state in run.group.history.last} == {2}


def test_member_that_ends_without_a_word_is_removed_when_its_session_times_out() -> None:
    run = Run(3, "cooperative-sticky")
    stays = [True]
    run.join("a")
    run.join("b", until=lambda: not stays[0], leaves=False)
    run.cluster.run_for(10_000)
    stays[0] = False
    run.cluster.run_for(12_000)
    assert run.end() == []
    (only,) = run.group.history.last
    assert len(only.partitions) == PARTITIONS


def test_static_member_that_starts_again_has_its_partitions_without_a_rebalance() -> None:
    run = Run(5, "range")
    stays = [True]
    run.join("a", instance="one")
    run.join("b", instance="two", until=lambda: not stays[0])
    run.cluster.run_for(10_000)
    stays[0] = False
    run.cluster.run_for(1_000)
    run.join("b again", instance="two")
    run.cluster.run_for(5_000)
    assert run.end() == []
    owned = [each for each in run.group.history.ownerships if each.instance == "two"]
    assert [(each.generation, len(each.partitions)) for each in owned] == [(1, 3), (1, 3)]
    assert owned[0].partitions == owned[1].partitions
    assert owned[0].member != owned[1].member
