"""The named points of the controller, in the order in which a takeover passes them. See
`understudy.foundation.eventlog.points`.

`write` is a fenced transaction in ZooKeeper, `flush` the hand-over of a batch of requests to the channels. Between
`after_write` and `after_flush` the brokers have not been sent yet what ZooKeeper holds.
"""

from __future__ import annotations

POINTS: tuple[str, ...] = (
    "election.before_write",
    "election.after_write",
    "failover.after_epoch",
    "features.before_write",
    "features.after_write",
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
    "reassignment.assignment.before_write",
    "reassignment.assignment.after_write",
    "reassignment.before_write",
    "reassignment.after_write",
    "reassignment.before_flush",
    "reassignment.after_flush",
    "reassignment.znode.before_write",
    "reassignment.znode.after_write",
    "controlled_shutdown.before_flush",
    "controlled_shutdown.after_flush",
    "deletion.before_flush",
    "deletion.after_flush",
    "deletion.before_write",
    "deletion.after_write",
    "deletion.configs.before_write",
    "deletion.configs.after_write",
    "deletion.markers.before_write",
    "deletion.markers.after_write",
    "deletion.restore.before_write",
    "deletion.restore.after_write",
    "alter_partition.before_write",
    "alter_partition.after_write",
    "producer_ids.before_write",
    "producer_ids.after_write",
    "resignation.before_write",
    "resignation.after_write",
)
