"""Tests of members and clients whose data cannot be stored, and of a log that takes nothing: others continue."""

from __future__ import annotations

import errno

import pytest

from tests.brokers.coordinator.group.parts import GROUP, ORDERS_1, CoordinatorHarness, assignment
from understudy.brokers.coordinator.group.group_records import encode_batch_of
from understudy.brokers.coordinator.group.member_metadata import JoiningMember
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.compression import Compression

TOO_LONG = "x" * 32_768
"""One byte more than a string in a record of `__consumer_offsets` may have."""
A_DAY_MS = 24 * 3_600_000


def committed(harness: CoordinatorHarness, **how: object) -> list[str]:
    return [error.name for error in harness.commit(5, **how).result().values()]  # type: ignore[arg-type]  # of `commit`


def test_a_group_id_that_no_record_can_hold_is_refused_everywhere(harness: CoordinatorHarness) -> None:
    assert harness.join(group=TOO_LONG).result().error is Errors.INVALID_GROUP_ID
    assert committed(harness, group=TOO_LONG) == ["INVALID_GROUP_ID"]
    assert harness.fetched(group="é" * 16_384) == "INVALID_GROUP_ID", "bytes count, and no characters"
    assert harness.manager_groups == {}
    harness.advance(8 * A_DAY_MS)
    assert committed(harness, group="x" * 32_767) == ["NONE"]


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "x" * 32_767},
        {"group_instance_id": TOO_LONG},
        {"protocol_type": TOO_LONG},
        {"protocols": ((TOO_LONG, b""),)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_member_that_no_record_can_hold_is_refused_and_the_others_are_undisturbed(
    harness: CoordinatorHarness, changed: dict[str, object]
) -> None:
    [only] = harness.stable(1)
    joining: JoiningMember = harness.joining()._replace(**changed)  # type: ignore[arg-type]  # fields of it
    assert harness.begin(harness.groups.join_group(GROUP, joining)).result().error is Errors.MESSAGE_TOO_LARGE
    assert harness.begin(harness.groups.join_group("new", joining)).result().error is Errors.MESSAGE_TOO_LARGE
    assert (harness.heartbeat(only, 1), harness.state, list(harness.manager_groups)) == ("NONE", "Stable", [GROUP])


def test_metadata_that_no_record_can_hold_is_refused_whatever_is_configured() -> None:
    harness = CoordinatorHarness({"offset.metadata.max.bytes": "100000"})
    assert committed(harness, metadata=TOO_LONG) == ["OFFSET_METADATA_TOO_LARGE"]
    assert committed(harness, metadata="x" * 32_767) == ["NONE"]
    harness.close()


def test_a_full_disk_sends_members_and_clients_to_another_coordinator(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.commit(5)
    joining = harness.join(group="members")
    harness.advance(3_001)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(harness.partition().log), "append_as_leader", full)
    member = joining.result().member_id
    syncing = harness.sync(member, 1, {member: assignment(0)}, group="members")
    assert committed(harness, partition=ORDERS_1) == ["NOT_COORDINATOR"]
    assert syncing.result().error is Errors.NOT_COORDINATOR
    assert (harness.fetched(), harness.fetched(ORDERS_1)) == (5, -1), "what was committed is still answered"


def test_an_unreadable_record_leaves_the_other_groups_of_its_partition(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.stable(1)
    harness.follow(leader_epoch=1)
    harness.append(unreadable(harness))
    harness.lead(leader_epoch=2)
    harness.settle()
    assert (harness.fetched(), harness.state) == (5, "Stable")
    assert harness.recorder.of("GroupsLoaded")[-1]["unreadable"] == 1
    assert committed(harness, group="another") == ["NONE"], "the coordinator goes on"


def unreadable(harness: CoordinatorHarness) -> bytes:
    return encode_batch_of([(b"\0\1\0", b"cut")], now_ms=int(harness.clock.wall_ms()), compression=Compression.NONE)
