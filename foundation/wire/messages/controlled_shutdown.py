"""ControlledShutdown (key 7): a broker about to stop asks the controller to move its leaderships away.

Versions: 1 client id in the header (version 0 alone uses request header 0); 2 broker epoch; 3 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since


class ControlledShutdownRequest(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: Annotated[int64, since(2), ignorable] = -1
    """The czxid of the sender's registration; -1 is not checked."""


class ControlledShutdownResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    remaining_partitions: tuple[RemainingPartition, ...] = ()
    """Partitions that the broker still leads: it may send the request again, or stop nevertheless."""


class RemainingPartition(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    partition_index: int32 = 0
