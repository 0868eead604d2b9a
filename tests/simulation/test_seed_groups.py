"""Consumer groups and compaction in seeds: they are judged, and a broken coordinator is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

import pytest

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_metadata_manager import GroupMetadataManager
from understudy.brokers.coordinator.group.group_offsets import GroupOffsets, OffsetAndMetadata
from understudy.brokers.coordinator.group.group_writer import GroupWriter
from understudy.brokers.replication.replica_manager import Appended
from understudy.checks.groups import GROUP_CHECKS
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.hunt.mutants import check_of
from understudy.trials.seeds.seed_plans import draw_plan
from understudy.trials.seeds.seeds import run_seed

SECONDS = 60


def commit_without_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge commits that are kept in memory alone."""
    appended_at = count(1 << 62)

    async def store(_: object, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Errors:
        group.offsets.prepare(offsets)
        group.offsets.complete(offsets, next(appended_at))
        return Errors.NONE

    monkeypatch.setattr(GroupMetadataManager, "store_offsets", store)


def commit_without_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledge what the leader alone has appended."""

    async def at_once(_: object, appended: Appended) -> Errors:
        return Errors.NONE

    monkeypatch.setattr(GroupWriter, "_replicated", at_once)


def without_unloading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue to coordinate the groups of partitions that another broker leads."""
    monkeypatch.setattr(GroupMetadataManager, "unload", lambda *_: None)


def without_loaded_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin to coordinate a partition without the offsets in its log."""
    monkeypatch.setattr(GroupOffsets, "load", lambda *_: None)


@pytest.mark.parametrize(
    ("broken", "seed", "check"),
    [
        (commit_without_append, 6, "G1"),
        (commit_without_followers, 6, "G1"),
        (without_unloading, 10, "G2"),
        (without_loaded_offsets, 6, "G1"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_broken_coordinator_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], seed: int, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert check in map(check_of, run_seed(seed, SECONDS).problems)


@pytest.mark.parametrize("seed", [6, 10])
def test_the_same_seeds_hold_where_nothing_is_broken(seed: int) -> None:
    """In seed 10 a broker that got no StopReplica answers what it had, as Kafka's does."""
    report = run_seed(seed, SECONDS)
    assert report.problems == ()
    assert all(report.clients_tested[check.id] > 0 for check in GROUP_CHECKS), report.clients_tested


def test_a_short_seed_has_groups_and_a_compacted_topic() -> None:
    seed = next(
        seed for seed in range(1, 50) if draw_plan(seed, 12).members and "compaction" in draw_plan(seed, 12).load
    )
    report = run_seed(seed, 12)
    assert report.problems == ()
    assert report.clients_tested["G1"] > 0
    assert report.clients_tested["G5"] > 0


def test_without_groups_no_group_is_judged() -> None:
    report = run_seed(1, 6, groups=False)
    assert not any(report.clients_tested[check.id] for check in GROUP_CHECKS)


def test_the_epochs_of_a_compacted_log_are_in_its_cache_after_a_loss_of_power() -> None:
    assert not run_seed(24, SECONDS).problems


def test_a_static_member_that_starts_again_before_it_syncs_does_not_end_the_coordinator() -> None:
    assert not run_seed(4_008_236, SECONDS).problems


def test_what_a_static_member_gives_up_before_it_starts_again_has_no_owner_as_in_kafka() -> None:
    assert not run_seed(4_008_403, SECONDS).problems


def test_epochs_that_are_cut_after_an_orderly_end_are_made_again() -> None:
    assert not run_seed(4_009_036, SECONDS).problems


@pytest.mark.parametrize("seed", [4_014_522, 4_010_300, 4_020_458])
def test_a_coordinator_that_does_not_know_that_its_replica_was_removed_goes_on_as_in_kafka(seed: int) -> None:
    assert not run_seed(seed, SECONDS).problems


@pytest.mark.parametrize("seed", [4_024_331, 4_025_092, 4_026_689])
def test_a_leader_alone_in_sync_after_a_loss_of_power_gives_no_end_offset_as_in_kafka(seed: int) -> None:
    assert not run_seed(seed, SECONDS).problems


@pytest.mark.parametrize("seed", [4_015_732, 4_019_029])
def test_a_follower_removes_records_of_an_epoch_that_its_leaders_compacted_log_lacks(seed: int) -> None:
    assert not run_seed(seed, SECONDS).problems


def test_a_follower_truncates_below_its_high_watermark_where_an_epoch_began_twice() -> None:
    assert not run_seed(4_021_893, SECONDS).problems


def test_groups_may_lose_offsets_by_an_unclean_election_that_its_controller_has_not_recorded() -> None:
    assert not run_seed(4_022_978, SECONDS).problems


def test_a_generation_that_an_unclean_election_has_lost_begins_again_as_in_kafka() -> None:
    assert not run_seed(4_013_923, SECONDS).problems


def test_members_may_leave_while_the_last_states_are_noted() -> None:
    assert not run_seed(182, 20).problems
