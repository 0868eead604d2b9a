"""The versions of `inter.broker.protocol.version`, and the requests and znodes that each of them means.

Mirrors `org.apache.kafka.server.common.MetadataVersion`, and gathers what Kafka keeps beside it in
`ControllerChannelManager`, `KafkaServer` and `ZkData`: the version of each request and znode. It determines what a
broker *sends*; it accepts all versions, so that the brokers of a cluster can be upgraded one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias


class UnknownMetadataVersion(ValueError):
    """There is no such version; the message lists the versions."""


class MetadataVersion(IntEnum):
    """In order of age: compare with `<` and `>=`. `str()` gives Kafka's text, such as `3.9-IV0`."""

    IBP_0_8_0 = 0
    IBP_0_8_1 = 1
    IBP_0_8_2 = 2
    IBP_0_9_0 = 3
    IBP_0_10_0_IV0 = 4
    IBP_0_10_0_IV1 = 5
    IBP_0_10_1_IV0 = 6
    IBP_0_10_1_IV1 = 7
    IBP_0_10_1_IV2 = 8
    IBP_0_10_2_IV0 = 9
    IBP_0_11_0_IV0 = 10
    IBP_0_11_0_IV1 = 11
    IBP_0_11_0_IV2 = 12
    IBP_1_0_IV0 = 13
    IBP_1_1_IV0 = 14
    IBP_2_0_IV0 = 15
    IBP_2_0_IV1 = 16
    IBP_2_1_IV0 = 17
    IBP_2_1_IV1 = 18
    IBP_2_1_IV2 = 19
    IBP_2_2_IV0 = 20
    IBP_2_2_IV1 = 21
    IBP_2_3_IV0 = 22
    IBP_2_3_IV1 = 23
    IBP_2_4_IV0 = 24
    IBP_2_4_IV1 = 25
    IBP_2_5_IV0 = 26
    IBP_2_6_IV0 = 27
    IBP_2_7_IV0 = 28
    IBP_2_7_IV1 = 29
    IBP_2_7_IV2 = 30
    IBP_2_8_IV0 = 31
    IBP_2_8_IV1 = 32
    IBP_3_0_IV0 = 33
    IBP_3_0_IV1 = 34
    IBP_3_1_IV0 = 35
    IBP_3_2_IV0 = 36
    IBP_3_3_IV0 = 37
    IBP_3_3_IV1 = 38
    IBP_3_3_IV2 = 39
    IBP_3_3_IV3 = 40
    IBP_3_4_IV0 = 41
    IBP_3_5_IV0 = 42
    IBP_3_5_IV1 = 43
    IBP_3_5_IV2 = 44
    IBP_3_6_IV0 = 45
    IBP_3_6_IV1 = 46
    IBP_3_6_IV2 = 47
    IBP_3_7_IV0 = 48
    IBP_3_7_IV1 = 49
    IBP_3_7_IV2 = 50
    IBP_3_7_IV3 = 51
    IBP_3_7_IV4 = 52
    IBP_3_8_IV0 = 53
    IBP_3_9_IV0 = 54

    @classmethod
    @lru_cache(64)
    def parse(cls, text: str) -> MetadataVersion:
        """Parse a version as Kafka does: `3.4-IV0`, or `3.4` or `3.4.1` for the last step of that release.

        Raises:
            UnknownMetadataVersion: there is no such version.
        """
        parts = text.split(".")
        release_parts = 3 if text.startswith("0.") else 2
        found = _BY_TEXT.get(text if len(parts) <= release_parts else ".".join(parts[:release_parts]))
        if found is None:
            accepted = ", ".join(dict.fromkeys(version.release for version in cls))
            raise UnknownMetadataVersion(
                f"Version {text} is not a valid version; expected a release ({accepted}), "
                "or a step towards one, as 3.9-IV0"
            )
        return found

    @property
    def release(self) -> str:
        """The short form: `3.9`."""
        return str(self).partition("-")[0]

    def __str__(self) -> str:
        numbers, _, step = self.name.removeprefix("IBP_").partition("_IV")
        return numbers.replace("_", ".") + (f"-IV{step}" if step else "")

    # -- what brokers do at this version

    @property
    def is_feature_versioning_supported(self) -> bool:
        """Whether `/feature` is used (KIP-584)."""
        return self >= MetadataVersion.IBP_2_7_IV0

    @property
    def is_alter_partition_supported(self) -> bool:
        """Whether leaders change an ISR by AlterPartition (KIP-497); before, they write it into ZooKeeper."""
        return self >= MetadataVersion.IBP_2_7_IV2

    @property
    def is_topic_ids_supported(self) -> bool:
        """Whether topics have ids (KIP-516)."""
        return self >= MetadataVersion.IBP_2_8_IV0

    @property
    def is_allocate_producer_ids_supported(self) -> bool:
        """Whether brokers get producer ids from the controller (KIP-730); before, they take them from ZooKeeper."""
        return self >= MetadataVersion.IBP_3_0_IV0

    @property
    def is_leader_recovery_supported(self) -> bool:
        """Whether a state records an unclean election until the leader has recovered (KIP-704)."""
        return self >= MetadataVersion.IBP_3_2_IV0

    @property
    def highest_supported_record_version(self) -> int:
        """The version of the message format: 0, 1 or 2."""
        return _latest(_RECORD, self)

    # -- the versions of znodes and requests

    @property
    def broker_registration_version(self) -> int:
        """The version of `/brokers/ids/N` (ZN-4)."""
        return _latest(_BROKER_REGISTRATION, self)

    @property
    def feature_node_version(self) -> int:
        """The version of `/feature` (ZN-7)."""
        return _latest(_FEATURE_NODE, self)

    @property
    def leader_and_isr_version(self) -> int:
        return _latest(_LEADER_AND_ISR, self)

    @property
    def stop_replica_version(self) -> int:
        return _latest(_STOP_REPLICA, self)

    @property
    def update_metadata_version(self) -> int:
        return _latest(_UPDATE_METADATA, self)

    @property
    def controlled_shutdown_version(self) -> int:
        return _latest(_CONTROLLED_SHUTDOWN, self)

    @property
    def alter_partition_version(self) -> int:
        """The highest version of AlterPartition; a request without topic ids is sent in version 1 (IS-4)."""
        return 3 if self.is_topic_ids_supported else 1

    @property
    def fetch_version(self) -> int:
        """The version of a follower's Fetch; 13 and above require the ids of all topics."""
        return _latest(_FETCH, self)

    @property
    def is_truncation_on_fetch_supported(self) -> bool:
        """Whether the answer to a follower's Fetch names the offset to truncate to (KIP-595)."""
        return self >= MetadataVersion.IBP_2_7_IV1

    @property
    def offset_for_leader_epoch_version(self) -> int:
        """The version of a follower's OffsetForLeaderEpoch."""
        return _latest(_OFFSET_FOR_LEADER_EPOCH, self)

    @property
    def list_offsets_version(self) -> int:
        """The version of a follower's ListOffsets; version 0, which answers differently, is not used."""
        return _latest(_LIST_OFFSETS, self)


LATEST_PRODUCTION = MetadataVersion.IBP_3_9_IV0

_Table: TypeAlias = Mapping[MetadataVersion, int]
"""The version of a request or znode by the first MetadataVersion that uses it, newest first."""

_V = MetadataVersion

_RECORD: _Table = {_V.IBP_0_11_0_IV0: 2, _V.IBP_0_10_0_IV0: 1, _V.IBP_0_8_0: 0}

_BROKER_REGISTRATION: _Table = {_V.IBP_2_7_IV0: 5, _V.IBP_0_10_0_IV1: 4, _V.IBP_0_8_0: 2}

_FEATURE_NODE: _Table = {_V.IBP_3_3_IV0: 2, _V.IBP_0_8_0: 1}

_LEADER_AND_ISR: _Table = {
    _V.IBP_3_4_IV0: 7,
    _V.IBP_3_2_IV0: 6,
    _V.IBP_2_8_IV1: 5,
    _V.IBP_2_4_IV1: 4,
    _V.IBP_2_4_IV0: 3,
    _V.IBP_2_2_IV0: 2,
    _V.IBP_1_0_IV0: 1,
    _V.IBP_0_8_0: 0,
}

_STOP_REPLICA: _Table = {
    _V.IBP_3_4_IV0: 4,
    _V.IBP_2_6_IV0: 3,
    _V.IBP_2_4_IV1: 2,
    _V.IBP_2_2_IV0: 1,
    _V.IBP_0_8_0: 0,
}

_UPDATE_METADATA: _Table = {
    _V.IBP_3_4_IV0: 8,
    _V.IBP_2_8_IV1: 7,
    _V.IBP_2_4_IV1: 6,
    _V.IBP_2_2_IV0: 5,
    _V.IBP_1_0_IV0: 4,
    _V.IBP_0_10_2_IV0: 3,
    _V.IBP_0_10_0_IV1: 2,
    _V.IBP_0_9_0: 1,
    _V.IBP_0_8_0: 0,
}

_CONTROLLED_SHUTDOWN: _Table = {_V.IBP_2_4_IV1: 3, _V.IBP_2_2_IV0: 2, _V.IBP_0_9_0: 1, _V.IBP_0_8_0: 0}

_FETCH: _Table = {
    _V.IBP_3_9_IV0: 17,
    _V.IBP_3_7_IV4: 16,
    _V.IBP_3_5_IV1: 15,
    _V.IBP_3_5_IV0: 14,
    _V.IBP_3_1_IV0: 13,
    _V.IBP_2_7_IV1: 12,
    _V.IBP_2_3_IV1: 11,
    _V.IBP_2_1_IV2: 10,
    _V.IBP_2_0_IV1: 8,
    _V.IBP_1_1_IV0: 7,
    _V.IBP_0_11_0_IV1: 5,
    _V.IBP_0_11_0_IV0: 4,
    _V.IBP_0_10_1_IV1: 3,
    _V.IBP_0_10_0_IV0: 2,
    _V.IBP_0_9_0: 1,
    _V.IBP_0_8_0: 0,
}

_OFFSET_FOR_LEADER_EPOCH: _Table = {
    _V.IBP_2_8_IV0: 4,
    _V.IBP_2_3_IV1: 3,
    _V.IBP_2_1_IV1: 2,
    _V.IBP_2_0_IV0: 1,
    _V.IBP_0_8_0: 0,
}

_LIST_OFFSETS: _Table = {
    _V.IBP_3_9_IV0: 9,
    _V.IBP_3_5_IV0: 8,
    _V.IBP_3_0_IV1: 7,
    _V.IBP_2_8_IV0: 6,
    _V.IBP_2_2_IV1: 5,
    _V.IBP_2_1_IV1: 4,
    _V.IBP_2_0_IV1: 3,
    _V.IBP_0_11_0_IV0: 2,
    _V.IBP_0_8_0: 1,
}


def _latest(table: _Table, version: MetadataVersion) -> int:
    return next(value for since, value in table.items() if version >= since)


# A later step of a release replaces the earlier one at the short form.
_BY_TEXT = {version.release: version for version in MetadataVersion} | {
    str(version): version for version in MetadataVersion
}
