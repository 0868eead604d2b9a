"""`understudy groups --zookeeper`: consumers from before Kafka 0.9, by their znodes."""

from __future__ import annotations

import pytest

from tests.understudy.kafka_tools.zookeeper.bed import CONNECT, Printed, ZooKeeperBed

NOTE = (
    "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer "
    "API).\n"
)


def groups(bed: ZooKeeperBed, *words: str) -> Printed:
    return bed.run("groups", "--zookeeper", CONNECT, *words)


@pytest.fixture
def bed(bed: ZooKeeperBed) -> ZooKeeperBed:
    """A group with two consumers, of which one owns a partition, and a group without."""
    bed.make("/brokers/topics/read/partitions/0", "/brokers/topics/read/partitions/1")
    bed.make("/consumers/active/ids/host-1", "/consumers/active/ids/idle-1", data=b'{"subscription":{"read":1}}')
    bed.make("/consumers/active/owners/read/0", data=b"host-1-0")
    bed.make("/consumers/active/offsets/read/0", data=b"2")
    bed.make("/consumers/left/ids", "/consumers/left/owners/read", "/consumers/left/owners/more")
    bed.make("/consumers/left/offsets/read/0", data=b"1")
    return bed


def test_the_groups_are_those_with_a_znode(bed: ZooKeeperBed) -> None:
    assert groups(bed, "--list") == Printed(0, "active\nleft\n", NOTE)


def test_a_group_is_shown_without_log_ends_if_no_broker_can_be_asked(bed: ZooKeeperBed) -> None:
    described = groups(bed, "--describe", "--group", "active")
    lines = [line.rstrip() for line in described.out.splitlines()]
    assert lines == [
        "Error: Could not fetch offset from zookeeper for group 'active' partition '[read,1]' due to missing offset "
        "data in zookeeper.",
        "",
        "TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID",
        "read            0          2               -               -               host-1",
        "read            1          -               -               -               -",
        "-               -          -               -               -               idle-1",
    ]
    assert groups(bed, "--describe", "--group", "none").out == "Error: The consumer group 'none' does not exist.\n"


def test_only_a_group_without_consumers_is_deleted(bed: ZooKeeperBed) -> None:
    refused = groups(bed, "--delete", "--group", "active")
    assert refused.out == "Error: Delete for group 'active' failed because its consumers are still active.\n"
    assert bed.data("/consumers/active/offsets/read/0") == "2"
    done = groups(bed, "--delete", "--group", "left", "--group", "none")
    assert done.out == (
        "Deleted all consumer group information for group 'left' in zookeeper.\n"
        "Error: Delete for group 'none' failed because group does not exist.\n"
    )
    assert bed.data("/consumers/left") is None


def test_what_groups_keep_of_a_topic_is_deleted(bed: ZooKeeperBed) -> None:
    groups(bed, "--delete", "--topic", "read")
    assert bed.data("/consumers/left/offsets/read") is None
    assert bed.data("/consumers/left/owners/more") is not None
    assert bed.data("/consumers/active/offsets/read/0") == "2"
    groups(bed, "--delete", "--group", "left", "--topic", "more")
    assert bed.data("/consumers/left") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--describe", 'Missing required argument "[group]"'),
        ("--delete", "Option [delete] either takes [group], [topic], or both"),
        ("--reset-offsets --group a", "Command must include exactly one action: --list, --describe, --delete"),
        ("--describe --group a --members", "Option(s) [members] are unavailable given other options"),
    ],
)
def test_a_wrong_command_line_is_refused(bed: ZooKeeperBed, words: str, message: str) -> None:
    refused = groups(bed, *words.split())
    assert refused.code == 1
    assert message in refused.err
