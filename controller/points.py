"""The named points of the controller, in the order a takeover passes them. See `foundation.eventlog.points`.

`write` is a fenced transaction in ZooKeeper, `flush` the hand-over of a batch of requests to the channels. Between
`after_write` and `after_flush` the world disagrees: ZooKeeper knows, the brokers do not.
"""

from __future__ import annotations

POINTS: tuple[str, ...] = (
    "election.before_write",
    "election.after_write",
    "failover.after_epoch",
    "notifications.before_write",
    "notifications.after_write",
    "topic_ids.before_write",
    "topic_ids.after_write",
    "metadata.before_flush",
    "metadata.after_flush",
    "partition.before_write",
    "partition.after_write",
    "partition.before_flush",
    "partition.after_flush",
    "replica.before_write",
    "replica.after_write",
    "replica.before_flush",
    "replica.after_flush",
    "preferred_election.before_write",
    "preferred_election.after_write",
    "controlled_shutdown.before_flush",
    "controlled_shutdown.after_flush",
    "alter_partition.before_write",
    "alter_partition.after_write",
    "resignation.before_write",
    "resignation.after_write",
)
