"""The bodies of the control port's requests, as structs, which check the data and describe it on the OpenAPI page."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from understudy.clusters.answers import MOST_THROTTLE_MS, MOST_TIMES
from understudy.clusters.problems import BadValue
from understudy.clusters.verb_table import ANSWER, ARM, TARGETS, VERBS

MOST_VALUES: Final = 1_000
MOST_PARTITIONS: Final = 10_000

B = TypeVar("B", bound="Body")

Target = Annotated[
    str,
    Meta(min_length=1, max_length=300, description=f"one of the forms {', '.join(TARGETS)}", examples=["controller"]),
]
Lasts = Annotated[
    str,
    Meta(max_length=30, description="a duration such as 5s or 200ms, after which it is undone", examples=["5s"]),
]
Partition = Annotated[str, Meta(max_length=300, description="TOPIC/NUMBER", examples=["orders/0"])]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object without other keys than its attributes."""


class OnTarget(Body, frozen=True, kw_only=True):
    """The body of a verb that has no duration."""

    target: Target


class OnTargetFor(OnTarget, frozen=True, kw_only=True):
    """The body of a verb that can be undone after a duration."""

    lasts: Lasts | None = msgspec.field(default=None, name="for")


class Arm(OnTarget, frozen=True, kw_only=True):
    """The body of `arm`."""

    point: Annotated[str, Meta(description="a named point of the controller", examples=["partition.after_write"])]
    action: Literal["pause", "crash"]


class Answer(OnTarget, frozen=True, kw_only=True):
    """The body of `answer`."""

    api: Annotated[str, Meta(max_length=100, description="Kafka's name of the request", examples=["Produce"])]
    error: Annotated[
        str,
        Meta(
            max_length=100,
            description="Kafka's name of the error; NONE for a throttle time alone",
            examples=["NOT_LEADER_OR_FOLLOWER"],
        ),
    ] = "NONE"
    times: Annotated[int, Meta(ge=1, le=MOST_TIMES, description="how many requests are answered so")] = 1
    topic: Annotated[str, Meta(max_length=249, description="the topic that the error is for; any without it")] = ""
    partition: Annotated[int, Meta(ge=0, description="the partition that the error is for")] | None = None
    client: Annotated[str, Meta(max_length=1_000, description="the client id of the requests; any without it")] = ""
    then: Literal["apply", "ignore"] | None = msgspec.field(default=None, name="and")
    throttle_ms: Annotated[int, Meta(ge=0, le=MOST_THROTTLE_MS, description="the throttle time in the answers")] = 0


class NewTopic(Body, frozen=True, kw_only=True):
    """A topic to create. Without a number of replicas, it has the brokers' `default.replication.factor`."""

    name: Annotated[str, Meta(min_length=1, max_length=249, examples=["orders"])]
    partitions: Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] = 1
    replication_factor: Annotated[int, Meta(ge=1, le=100)] | None = None
    configs: dict[str, str] = msgspec.field(default_factory=dict)


class Election(Body, frozen=True, kw_only=True):
    """An election of leaders, of all partitions if none is given."""

    partitions: Annotated[tuple[Partition, ...], Meta(min_length=1, max_length=MOST_PARTITIONS)] | None = None
    type: Literal["preferred", "unclean"] = "preferred"


class Records(Body, frozen=True, kw_only=True):
    """Records to append to a partition, as one batch of an idempotent producer."""

    partition: Partition
    values: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_VALUES, examples=[["a", "b"]])]
    acks: Literal["all", "1"] = "all"
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000, description="how long the batch is sent again")] = 20_000


def body_of(verb: str) -> type[OnTarget]:
    """Return the struct of a verb's body."""
    if verb == ARM:
        return Arm
    if verb == ANSWER:
        return Answer
    return OnTargetFor if VERBS[verb].undo else OnTarget


def decode(data: bytes, kind: type[B]) -> B:
    """Decode the body of a request. Raises BadValue, which names the key and the problem."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise BadValue(f"the body of the request is not as expected: {error}") from None
