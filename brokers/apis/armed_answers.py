"""Gives armed answers: the next requests of one kind get an error, whether the broker would refuse them or not.

`answered` stands between a request and its handler. Most answers are made from the request. An API whose answer has
more than its request names has its handler's answer changed (`Serves.reading`). Fetch asks for its armed answer itself,
because a request in a fetch session names only the partitions that have changed (`Serves.gives_armed_answers`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID
from understudy.foundation.eventlog.records import AnswerInjected
from understudy.foundation.wire.armed_answers import ArmedAnswer
from understudy.foundation.wire.error_answers import (
    ErrorAnswer,
    Named,
    Only,
    error_answer,
    has_throttle_time,
    joined,
    with_error,
    with_throttle_time,
)
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import Message

TEXT: Final = "This answer was armed by `understudy answer`, an experiment or a test."
"""The message beside the code, in answers that have one."""
_CONSUMER: Final = -1


async def answered(
    services: BrokerServices, serves: Serves[Any], api: Api, request: Message, context: RequestContext
) -> Message | None:
    """Answer a request by an armed answer if there is one for it, and by its handler otherwise; None for no answer."""
    if serves.gives_armed_answers or not services.answers.left():
        return await serves.handle(services, request, context)
    return await given(services, api, request, context, serves.handle, serves.reading)


async def given(
    services: BrokerServices,
    api: Api,
    request: Message,
    context: RequestContext,
    handle: Callable[[BrokerServices, Any, RequestContext], Awaitable[Message | None]],
    reading: Callable[[Any], Any] | None = None,
) -> Message | None:
    """Answer a request by the first armed answer for it, or by its handler if there is none.

    Args:
        reading: as in `Serves`.
    """
    found = _first(services, api, request, context, is_read=reading is not None)
    if found is None:
        return await handle(services, request, context)
    armed, made = found
    # It is counted before the handler waits, so that no second request takes it meanwhile.
    note(services, armed, api, context, () if made is None else made.named)
    version = context.api_version
    if armed.is_applied or made is None or reading is not None:
        handled = request if armed.is_applied or reading is None else reading(request)
        answer = await handle(services, handled, context)
        if answer is not None and armed.code is not Errors.NONE:
            answer = with_error(api, version, answer, armed.code, TEXT, _only(services, armed))
    else:
        rest = None if made.rest is None else await handle(services, made.rest, context)
        answer = made.answer if rest is None else joined(api, version, rest, made.answer)
    return None if answer is None else with_throttle_time(answer, version, armed.throttle_ms)


def _first(
    services: BrokerServices, api: Api, request: Message, context: RequestContext, *, is_read: bool
) -> tuple[ArmedAnswer, ErrorAnswer | None] | None:
    """Return the first armed answer for a request, and the answer with its error; None if there is none.

    Args:
        is_read: whether the answer has more than the request names. There is then no answer with the error for a
            request about all topics.
    """
    version = context.api_version
    for armed in services.answers.left():
        if not _is_for(armed, api, request, context):
            continue
        only = _only(services, armed)
        # A request whose answer has more than it names, Metadata, names topics but no partitions.
        made = error_answer(api, version, request, armed.code, TEXT, replace(only, partition=None) if is_read else only)
        if made is not None or (is_read and _names_all(request, version) and _exists(services, armed.topic)):
            return armed, made
    return None


def find(
    services: BrokerServices, api: Api, request: Message, context: RequestContext, named: Iterable[Named]
) -> ArmedAnswer | None:
    """Return the first armed answer for a request about these partitions; None if there is none. It is not counted."""
    about = tuple(named)
    for armed in services.answers.left():
        if _is_for(armed, api, request, context) and any(is_about(armed, each) for each in about):
            return armed
    return None


def is_about(armed: ArmedAnswer, named: Named) -> bool:
    """Whether an armed answer is meant for a partition."""
    return (not armed.topic or named.topic == armed.topic) and armed.partition in (None, named.partition)


def note(
    services: BrokerServices, armed: ArmedAnswer, api: Api, context: RequestContext, named: Iterable[Named]
) -> None:
    """Count an armed answer that is given, and write its record."""
    hit = services.answers.count(armed)
    services.events.append(
        AnswerInjected(
            answer=armed.name,
            hit=hit,
            times=armed.times,
            api=api.name,
            api_version=context.api_version,
            client_id=context.client_id or "",
            correlation_id=context.correlation_id,
            error=armed.error,
            partitions=tuple((each.topic, -1 if each.partition is None else each.partition) for each in named),
            is_applied=armed.is_applied,
            throttle_ms=armed.throttle_ms,
        )
    )


def _is_for(armed: ArmedAnswer, api: Api, request: Message, context: RequestContext) -> bool:
    """Whether an armed answer is for requests of this kind and client, if they expect an answer at all."""
    if armed.api != api.name or getattr(request, "acks", None) == 0:
        return False
    if armed.code is Errors.NONE and not has_throttle_time(api.response, context.api_version):
        return False
    if armed.client_id:
        return armed.client_id == context.client_id
    return not _is_of_follower(request)


def _is_of_follower(request: Message) -> bool:
    """Whether a replica has sent a request that consumers send as well."""
    replica_state = getattr(request, "replica_state", None)
    own = getattr(request, "replica_id", _CONSUMER)
    return own > _CONSUMER or getattr(replica_state, "replica_id", _CONSUMER) > _CONSUMER


def _only(services: BrokerServices, armed: ArmedAnswer) -> Only:
    topic_id = services.metadata.snapshot.topic_id(armed.topic) if armed.topic else NO_TOPIC_ID
    return Only(armed.topic, "" if topic_id == NO_TOPIC_ID else topic_id, armed.partition)


def _names_all(request: Message, version: int) -> bool:
    """Whether a request is about all topics: null, or in version 0 an empty list."""
    topics = getattr(request, "topics", ())
    return topics is None or (version == 0 and not topics)


def _exists(services: BrokerServices, topic: str) -> bool:
    return not topic or topic in services.metadata.snapshot.topics
