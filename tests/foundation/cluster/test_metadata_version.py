"""Metadata versions: the expectations are from MetadataVersion, ControllerChannelManager, KafkaServer and ZkData of
Kafka 3.9."""

from __future__ import annotations

import pytest

from understudy.foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion, UnknownMetadataVersion

parse = MetadataVersion.parse

IN_ORDER = """
    0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 0.11.0-IV1
    0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 2.3-IV1 2.4-IV0 2.4-IV1
    2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2
    3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0
    3.9-IV0
"""


def test_all_versions_in_order() -> None:
    assert [str(version) for version in sorted(MetadataVersion)] == IN_ORDER.split()
    assert [parse(text) for text in IN_ORDER.split()] == list(MetadataVersion)
    assert LATEST_PRODUCTION is max(MetadataVersion)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.9", "3.9-IV0"),
        ("3.7", "3.7-IV4"),
        ("2.8", "2.8-IV1"),
        ("0.8.2", "0.8.2"),
        ("0.10.1", "0.10.1-IV2"),
        ("3.4.1", "3.4-IV0"),
        ("1.0.1", "1.0-IV0"),
        ("0.10.2.1", "0.10.2-IV0"),
        ("0.8.0.x", "0.8.0"),
        ("2.8-IV1.7", "2.8-IV1"),
    ],
)
def test_a_release_name_means_its_latest_metadata_version(text: str, version: str) -> None:
    assert str(parse(text)) == version
    assert parse(text).release == version.partition("-")[0]


@pytest.mark.parametrize("text", ["", "3", "0.10", "2.9", "4.0", "4.0-IV0", "3.9-IV1", "3.9-iv0", " 3.9", "latest"])
def test_an_unknown_version_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownMetadataVersion) as refused:
        parse(text)
    assert str(refused.value).startswith(f"Version {text} is not a valid version; expected a release (0.8.0, 0.8.1, ")
    assert "3.8, 3.9), or a step towards one, as 3.9-IV0" in str(refused.value)


@pytest.mark.parametrize(
    ("since", "before", "gate"),
    [
        ("2.7-IV0", "2.6-IV0", "is_feature_versioning_supported"),
        ("2.7-IV2", "2.7-IV1", "is_alter_partition_supported"),
        ("2.8-IV0", "2.7-IV2", "is_topic_ids_supported"),
        ("3.0-IV0", "2.8-IV1", "is_allocate_producer_ids_supported"),
        ("3.2-IV0", "3.1-IV0", "is_leader_recovery_supported"),
    ],
)
def test_features_begin_at_the_versions_of_kafka(since: str, before: str, gate: str) -> None:
    opened = [getattr(version, gate) for version in MetadataVersion]
    assert opened == [version >= parse(since) for version in MetadataVersion]
    assert not getattr(parse(before), gate)


REQUESTS = """
    since       LISR SR UMR CSR
    0.8.0       0    0  0   0
    0.9.0       0    0  1   1
    0.10.0-IV0  0    0  1   1
    0.10.0-IV1  0    0  2   1
    0.10.2-IV0  0    0  3   1
    1.0-IV0     1    0  4   1
    2.1-IV2     1    0  4   1
    2.2-IV0     2    1  5   2
    2.4-IV0     3    1  5   2
    2.4-IV1     4    2  6   3
    2.5-IV0     4    2  6   3
    2.6-IV0     4    3  6   3
    2.8-IV0     4    3  6   3
    2.8-IV1     5    3  7   3
    3.1-IV0     5    3  7   3
    3.2-IV0     6    3  7   3
    3.3-IV3     6    3  7   3
    3.4-IV0     7    4  8   3
    3.9-IV0     7    4  8   3
"""


@pytest.mark.spec("IO-3", "CS-2")
def test_the_versions_of_control_requests() -> None:
    for row in REQUESTS.strip().splitlines()[1:]:
        text, *versions = row.split()
        version = parse(text)
        asked = (
            version.leader_and_isr_version,
            version.stop_replica_version,
            version.update_metadata_version,
            version.controlled_shutdown_version,
        )
        assert asked == tuple(map(int, versions)), text


FETCH = """
    0.8.2:0 0.9.0:1 0.10.0-IV0:2 0.10.1-IV0:2 0.10.1-IV1:3 0.10.2-IV0:3 0.11.0-IV0:4 0.11.0-IV1:5 1.0-IV0:5 1.1-IV0:7
    2.0-IV0:7 2.0-IV1:8 2.1-IV1:8 2.1-IV2:10 2.3-IV0:10 2.3-IV1:11 2.7-IV0:11 2.7-IV1:12 3.0-IV1:12 3.1-IV0:13
    3.4-IV0:13 3.5-IV0:14 3.5-IV1:15 3.7-IV3:15 3.7-IV4:16 3.8-IV0:16 3.9-IV0:17
"""


def test_the_version_of_a_followers_fetch() -> None:
    for text, _, version in (pair.partition(":") for pair in FETCH.split()):
        assert parse(text).fetch_version == int(version), text


@pytest.mark.spec("IS-4")
def test_the_version_of_alter_partition() -> None:
    assert {text: parse(text).alter_partition_version for text in ("2.7", "2.8-IV0", "3.9")} == {
        "2.7": 1,
        "2.8-IV0": 3,
        "3.9": 3,
    }


@pytest.mark.spec("ZN-4", "ZN-7")
def test_the_versions_of_znodes() -> None:
    registrations = {
        text: parse(text).broker_registration_version for text in ("0.9.0", "0.10.0-IV0", "0.10.0", "2.6", "2.7-IV0")
    }
    assert registrations == {"0.9.0": 2, "0.10.0-IV0": 2, "0.10.0": 4, "2.6": 4, "2.7-IV0": 5}
    assert [parse(text).feature_node_version for text in ("2.6", "2.7", "3.2", "3.3-IV0", "3.9")] == [1, 1, 1, 2, 2]


def test_the_record_version() -> None:
    assert [
        parse(text).highest_supported_record_version for text in ("0.9.0", "0.10.0-IV0", "0.10.2", "0.11.0-IV0")
    ] == [
        0,
        1,
        1,
        2,
    ]
