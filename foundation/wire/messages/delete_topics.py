"""DeleteTopics (key 20): mark topics for deletion.

Versions: 1 throttle time; 4 flexible; 5 error messages and throttling as an error (KIP-599); 6 by topic id.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int16, int32, nullable_since, since, until


class DeleteTopicsRequest(Message, frozen=True, kw_only=True):
    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[str, ...], until(5), ignorable] = ()
    timeout_ms: int32 = 0
    """Time for which the answer waits for the deletion, which continues after a timeout."""


class DeleteTopicState(Message, frozen=True, kw_only=True):
    name: str | None = None
    """Each topic has either a name or an id."""
    topic_id: TopicId = NO_TOPIC_ID


class DeleteTopicsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    responses: tuple[DeletableTopicResult, ...] = ()


class DeletableTopicResult(Message, frozen=True, kw_only=True):
    name: Annotated[str | None, nullable_since(6)] = None
    """None only for an unknown id."""
    topic_id: Annotated[TopicId, since(6), ignorable] = NO_TOPIC_ID
    error_code: int16 = 0
    error_message: Annotated[str | None, since(5), ignorable] = None
