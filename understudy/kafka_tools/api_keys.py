"""The APIs that Kafka 3.9's clients know, as `kafka-broker-api-versions.sh` lists them. Mirrors `ApiKeys`.

The table has more than `foundation.wire.registry`: also APIs of KRaft, transactions and share groups, of which no
message is encoded here.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ApiKey(NamedTuple):
    """An API with the newest version that a client of 3.9 knows, unstable ones included; the oldest is always 0.

    Attributes:
        is_of_brokers: brokers serve it in ZooKeeper or KRaft mode, so that it is listed also if a broker does not.
    """

    name: str
    newest: int
    is_of_brokers: bool = True


API_KEYS: Final[dict[int, ApiKey]] = {
    0: ApiKey("Produce", 11),
    1: ApiKey("Fetch", 17),
    2: ApiKey("ListOffsets", 9),
    3: ApiKey("Metadata", 12),
    4: ApiKey("LeaderAndIsr", 7),
    5: ApiKey("StopReplica", 4),
    6: ApiKey("UpdateMetadata", 8),
    7: ApiKey("ControlledShutdown", 3),
    8: ApiKey("OffsetCommit", 9),
    9: ApiKey("OffsetFetch", 9),
    10: ApiKey("FindCoordinator", 6),
    11: ApiKey("JoinGroup", 9),
    12: ApiKey("Heartbeat", 4),
    13: ApiKey("LeaveGroup", 5),
    14: ApiKey("SyncGroup", 5),
    15: ApiKey("DescribeGroups", 5),
    16: ApiKey("ListGroups", 5),
    17: ApiKey("SaslHandshake", 1),
    18: ApiKey("ApiVersions", 4),
    19: ApiKey("CreateTopics", 7),
    20: ApiKey("DeleteTopics", 6),
    21: ApiKey("DeleteRecords", 2),
    22: ApiKey("InitProducerId", 5),
    23: ApiKey("OffsetForLeaderEpoch", 4),
    24: ApiKey("AddPartitionsToTxn", 5),
    25: ApiKey("AddOffsetsToTxn", 4),
    26: ApiKey("EndTxn", 4),
    27: ApiKey("WriteTxnMarkers", 1),
    28: ApiKey("TxnOffsetCommit", 4),
    29: ApiKey("DescribeAcls", 3),
    30: ApiKey("CreateAcls", 3),
    31: ApiKey("DeleteAcls", 3),
    32: ApiKey("DescribeConfigs", 4),
    33: ApiKey("AlterConfigs", 2),
    34: ApiKey("AlterReplicaLogDirs", 2),
    35: ApiKey("DescribeLogDirs", 4),
    36: ApiKey("SaslAuthenticate", 2),
    37: ApiKey("CreatePartitions", 3),
    38: ApiKey("CreateDelegationToken", 3),
    39: ApiKey("RenewDelegationToken", 2),
    40: ApiKey("ExpireDelegationToken", 2),
    41: ApiKey("DescribeDelegationToken", 3),
    42: ApiKey("DeleteGroups", 2),
    43: ApiKey("ElectLeaders", 2),
    44: ApiKey("IncrementalAlterConfigs", 1),
    45: ApiKey("AlterPartitionReassignments", 0),
    46: ApiKey("ListPartitionReassignments", 0),
    47: ApiKey("OffsetDelete", 0),
    48: ApiKey("DescribeClientQuotas", 1),
    49: ApiKey("AlterClientQuotas", 1),
    50: ApiKey("DescribeUserScramCredentials", 0),
    51: ApiKey("AlterUserScramCredentials", 0),
    52: ApiKey("Vote", 1, is_of_brokers=False),
    53: ApiKey("BeginQuorumEpoch", 1, is_of_brokers=False),
    54: ApiKey("EndQuorumEpoch", 1, is_of_brokers=False),
    55: ApiKey("DescribeQuorum", 2),
    56: ApiKey("AlterPartition", 3),
    57: ApiKey("UpdateFeatures", 1),
    58: ApiKey("Envelope", 0),
    59: ApiKey("FetchSnapshot", 1, is_of_brokers=False),
    60: ApiKey("DescribeCluster", 1),
    61: ApiKey("DescribeProducers", 0),
    62: ApiKey("BrokerRegistration", 4, is_of_brokers=False),
    63: ApiKey("BrokerHeartbeat", 1, is_of_brokers=False),
    64: ApiKey("UnregisterBroker", 0),
    65: ApiKey("DescribeTransactions", 0),
    66: ApiKey("ListTransactions", 1),
    67: ApiKey("AllocateProducerIds", 0),
    68: ApiKey("ConsumerGroupHeartbeat", 0),
    69: ApiKey("ConsumerGroupDescribe", 0),
    70: ApiKey("ControllerRegistration", 0, is_of_brokers=False),
    71: ApiKey("GetTelemetrySubscriptions", 0),
    72: ApiKey("PushTelemetry", 0),
    73: ApiKey("AssignReplicasToDirs", 0, is_of_brokers=False),
    74: ApiKey("ListClientMetricsResources", 0),
    75: ApiKey("DescribeTopicPartitions", 0),
    76: ApiKey("ShareGroupHeartbeat", 0),
    77: ApiKey("ShareGroupDescribe", 0),
    78: ApiKey("ShareFetch", 0),
    79: ApiKey("ShareAcknowledge", 0),
    80: ApiKey("AddRaftVoter", 0),
    81: ApiKey("RemoveRaftVoter", 0),
    82: ApiKey("UpdateRaftVoter", 0, is_of_brokers=False),
    83: ApiKey("InitializeShareGroupState", 0),
    84: ApiKey("ReadShareGroupState", 0),
    85: ApiKey("WriteShareGroupState", 0),
    86: ApiKey("DeleteShareGroupState", 0),
    87: ApiKey("ReadShareGroupStateSummary", 0),
}
"""The APIs by key."""
