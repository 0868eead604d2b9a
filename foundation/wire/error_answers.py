"""Makes answers that carry an error: any error code, in the answer to any request, in any version.

An answer has its error codes at one or two *levels*: in the answer itself (Heartbeat), in the structs of an array
(DescribeGroups: one for each group), or in the structs of an array inside another (Produce: one for each partition of
each topic). Which arrays and structs these are follows from the message classes. The structs are made for everything
that the request names: a field that identifies something, such as `name` or `partition_index`, has the same name in the
request. Mirrors the methods `getErrorResponse` of Kafka's request classes; tests/interop/test_error_answers.py compares
the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.create_topics import CreatableTopicResult
from understudy.foundation.wire.messages.delete_records import DeleteRecordsPartitionResult
from understudy.foundation.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdResponse
from understudy.foundation.wire.messages.join_group import JoinGroupResponse
from understudy.foundation.wire.messages.produce import PartitionProduceResponse
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import ArrayOf, Field, Message, StructOf, fields_of

M = TypeVar("M", bound=Message)

CODES: Final = ("error_code", "partition_error_code")
"""Names of the fields that say whether all is well with a struct."""
MESSAGE: Final = "error_message"
THROTTLE_TIME: Final = "throttle_time_ms"

_TOPIC_NAMES: Final = ("topic_name", "topic", "name")
_TOPIC_ID: Final = "topic_id"
_PARTITIONS: Final = ("partition_index", "partition_id", "partition", "index")
_ENTITY: Final = "entity"
"""Array of structs that say together what a struct is about; their classes have the same fields in both messages."""
_SYNONYMS: Final = (_TOPIC_NAMES, _PARTITIONS, ("user", "name"))
"""Names of one thing in a request and its answer."""
_IDENTIFYING: Final = (
    *_TOPIC_NAMES, _TOPIC_ID, *_PARTITIONS, "group_id", "key", "member_id", "group_instance_id", "resource_type",
    "resource_name", "feature", "transactional_id", "user",
)  # fmt: skip
"""Fields that say what a struct is about."""

_ABOUT_TOPICS: Final = frozenset(
    {
        Errors.OFFSET_OUT_OF_RANGE, Errors.CORRUPT_MESSAGE, Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.LEADER_NOT_AVAILABLE, Errors.NOT_LEADER_OR_FOLLOWER, Errors.REPLICA_NOT_AVAILABLE,
        Errors.INVALID_TOPIC_EXCEPTION, Errors.TOPIC_AUTHORIZATION_FAILED, Errors.INVALID_REPLICA_ASSIGNMENT,
        Errors.KAFKA_STORAGE_ERROR, Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH,
        Errors.OFFSET_NOT_AVAILABLE, Errors.NO_REASSIGNMENT_IN_PROGRESS, Errors.GROUP_SUBSCRIBED_TO_TOPIC,
        Errors.UNSTABLE_OFFSET_COMMIT, Errors.UNKNOWN_TOPIC_ID, Errors.INCONSISTENT_TOPIC_ID,
    }
)  # fmt: skip
"""Errors of one topic or partition. An answer with codes at two levels has all others at the upper one."""
_ABOUT_ENTRIES: Final[Mapping[str, frozenset[Errors]]] = MappingProxyType(
    {
        # The controller answers for each partition.
        "ElectLeaders": frozenset(Errors) - {Errors.CLUSTER_AUTHORIZATION_FAILED},
        "LeaveGroup": frozenset({Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID}),
        "UpdateFeatures": frozenset({Errors.INVALID_UPDATE_VERSION, Errors.FEATURE_UPDATE_FAILED}),
        "DescribeUserScramCredentials": frozenset({Errors.RESOURCE_NOT_FOUND, Errors.DUPLICATE_RESOURCE}),
    }
)
"""Such errors of other APIs, or further ones, by API."""

_UNKNOWN: Final[Mapping[type[Message], Mapping[str, object]]] = MappingProxyType(
    {
        PartitionProduceResponse: {"base_offset": -1},
        DeleteRecordsPartitionResult: {"low_watermark": -1},
        FindCoordinatorResponse: {"node_id": -1, "port": -1},
        Coordinator: {"node_id": -1, "port": -1},
        InitProducerIdResponse: {"producer_epoch": -1},
        JoinGroupResponse: {"protocol_name": None},
        CreatableTopicResult: {"configs": ()},
    }
)
"""Values of fields beside an error, if they are not the fields' defaults; in versions that can hold them."""


class Named(NamedTuple):
    """A topic, or a partition, that an answer carries the error for.

    Attributes:
        topic: the topic's name; empty if the request names the topic by id.
        partition: the partition's number; None for the topic itself.
    """

    topic: str = ""
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Only:
    """The part of a request that an error is limited to.

    Attributes:
        topic: the name of a topic; empty for all that the request names.
        topic_id: the id of this topic, for requests that name topics by id; empty if it is unknown.
        partition: the number of one of its partitions; None for all.
    """

    topic: str = ""
    topic_id: str = ""
    partition: int | None = None

    def has_topic(self, name: str, topic_id: str) -> bool:
        is_its_id = bool(self.topic_id) and topic_id == self.topic_id
        return not self.topic or name == self.topic or (not name and is_its_id)


ALL: Final = Only()


class Levels(NamedTuple):
    """The levels of the error codes in an answer's class, in one version.

    Level 0 is the answer itself, level 1 the structs of the array `arrays[0]`, level 2 the structs of the
    array `arrays[1]` inside of them, and so on.

    Attributes:
        arrays: the names of the arrays on the way to the lowest codes.
        kinds: the class of the structs at each level.
        codes: the levels whose structs have a code.
        topics: the level of the topics; 0 if there is none.
        partitions: the level of the partitions; 0 if there is none.
    """

    arrays: tuple[str, ...]
    kinds: tuple[type[Message], ...]
    codes: tuple[int, ...]
    topics: int
    partitions: int

    def have(self, only: Only) -> bool:
        """Whether the answer has topics, and partitions, if an error is limited to one."""
        return (not only.topic or self.topics > 0) and (only.partition is None or self.partitions > 0)

    def level_of(self, api: Api, error: Errors, only: Only) -> int:
        """Return the level at which the answer carries the error."""
        if only.partition is not None:
            return self.codes[-1]
        entries = next((level for level in self.codes if self.topics and level >= self.topics), self.codes[-1])
        is_about_topics = self.topics > 0 and error in _ABOUT_TOPICS
        is_about_entries = is_about_topics or error in _ABOUT_ENTRIES.get(api.name, ())
        return entries if only.topic or is_about_entries else min(self.codes[0], entries)


@cache
def levels_of(response: type[Message], version: int) -> Levels:
    """Return the levels of an answer's class in a version. It has a code in every version, but not at every level."""
    arrays: list[str] = []
    kinds = [response]
    while (found := _array_with_codes(kinds[-1], version)) is not None:
        arrays.append(found[0])
        kinds.append(found[1])
    return Levels(
        arrays=tuple(arrays),
        kinds=tuple(kinds),
        codes=tuple(level for level, kind in enumerate(kinds) if _first(kind, CODES, version)),
        topics=next((level for level, kind in enumerate(kinds) if level and _is_topic(kind)), 0),
        partitions=next((level for level, kind in enumerate(kinds) if level and _first(kind, _PARTITIONS, version)), 0),
    )


def error_answer(
    api: Api, version: int, request: Message, error: Errors, text: str, only: Only = ALL
) -> ErrorAnswer | None:
    """Return the answer to a request that carries an error for everything, or for one topic or partition, of it.

    Args:
        text: the message beside the code, in versions that have one.

    Returns:
        None if the request names nothing of this kind, so that its answer has no place for the code.
    """
    levels = levels_of(api.response, version)
    if not levels.have(only):
        return None
    level = levels.level_of(api, error, only)
    maker = _Maker(version, levels, level, error, text, only)
    if level:
        entries, rest = maker.split(request, 0, "")
        if entries:
            answer = api.response(**{levels.arrays[0]: tuple(entries)})
            return ErrorAnswer(answer, rest, maker.noted())
        level = levels.codes[0]
        if level or only.topic:
            return None
    return ErrorAnswer(_with_code(_unknown(api.response, version), version, error, text), None, ())


class ErrorAnswer(NamedTuple):
    """The answer with an error, and the request for the part that it is not an answer to.

    Attributes:
        rest: the request without what the error is for; None if nothing is left.
        named: the topics or partitions that the error is for, if it is for any.
    """

    answer: Message
    rest: Message | None
    named: tuple[Named, ...]


def with_error(api: Api, version: int, answer: M, error: Errors, text: str, only: Only = ALL) -> M:
    """Replace the codes of an answer, for everything or for one topic or partition of it.

    Other values stay, as Kafka answers REQUEST_TIMED_OUT with the offset of the records; but a struct with the code has
    no others with codes in it.
    """
    levels = levels_of(api.response, version)
    level = levels.level_of(api, error, only)
    maker = _Maker(version, levels, level, error, text, only)
    replaced = maker.replaced(answer, 0, "")
    if maker.named or levels.codes[0] > 0 or only.topic:
        return replaced
    return _Maker(version, levels, 0, error, text, only).replaced(answer, 0, "")


def joined(api: Api, version: int, answer: M, refused: Message) -> M:
    """Add what an answer with an error has to another answer, to the rest of the same request."""
    return _joined(levels_of(api.response, version), answer, refused, 0)


def with_throttle_time(answer: M, version: int, throttle_ms: int) -> M:
    """Set the throttle time of an answer, in milliseconds, in versions that have one."""
    if throttle_ms and _has(type(answer), THROTTLE_TIME, version):
        return replace(answer, **{THROTTLE_TIME: throttle_ms})
    return answer


def has_throttle_time(response: type[Message], version: int) -> bool:
    """Whether an answer has a throttle time in a version."""
    return _has(response, THROTTLE_TIME, version)


# ------------------------------------------------------------------ entries


class _Maker:
    """Makes the structs with the code, and notes what they are for."""

    def __init__(self, version: int, levels: Levels, level: int, error: Errors, text: str, only: Only) -> None:
        self._version = version
        self._levels = levels
        self._level = level
        self._error = error
        self._text = text
        self._only = only
        self.named: list[Named] = []

    def noted(self) -> tuple[Named, ...]:
        return tuple(each for each in self.named if each != Named())

    def split(self, asked: Message, level: int, topic: str) -> tuple[list[Message], Message | None]:
        """Return the structs below `level` for what `asked` names, and `asked` without it; None if nothing is left."""
        entries: list[Message] = []
        left: dict[str, Any] = {}
        arrays = [field for field in fields_of(type(asked)) if self._is_asked(field)]
        for field in arrays:
            kept: list[object] = []
            for each in getattr(asked, field.name) or ():
                entry, rest = self._entry(each, level + 1, topic)
                # AlterUserScramCredentials may name a user in two arrays, and answers for it once.
                entries += entry if len(arrays) == 1 else [one for one in entry if one not in entries]
                if rest is not None:
                    kept.append(rest)
            left[field.name] = tuple(kept)
        if not entries:
            return [], asked
        return entries, replace(asked, **left) if any(left.values()) else None

    def _is_asked(self, field: Field) -> bool:
        return isinstance(field.type, ArrayOf) and self._version in field.versions

    def _entry(self, asked: object, level: int, topic: str) -> tuple[list[Message], object | None]:
        """Return the structs at `level` for an element of an array, and the rest of the element."""
        kind = self._levels.kinds[level]
        found = _identity(kind, asked, self._version)
        if found is None:
            # It stands between: AlterReplicaLogDirs names topics inside of directories, and answers without these.
            return self.split(asked, level - 1, topic) if isinstance(asked, Message) else ([], asked)
        entry = _unknown(kind, self._version, found)
        if not self._is_wanted(entry, level):
            return [], asked
        topic = topic or self._topic(entry, level)
        if level == self._level:
            self.named.append(Named(topic, self._partition(entry, level)))
            return [_with_code(entry, self._version, self._error, self._text)], None
        if not isinstance(asked, Message):
            return [], asked
        below, rest = self.split(asked, level, topic)
        return ([replace(entry, **{self._levels.arrays[level]: tuple(below)})] if below else []), rest

    def replaced(self, answer: M, level: int, topic: str) -> M:
        """Return a struct of an answer with the code in it, or in those below it that are wanted."""
        topic = topic or self._topic(answer, level)
        array = self._levels.arrays[level] if level < len(self._levels.arrays) else None
        if level == self._level:
            self.named.append(Named(topic, self._partition(answer, level)))
            emptied = answer if array is None else replace(answer, **{array: ()})
            return _with_code(emptied, self._version, self._error, self._text)
        assert array is not None, "the code is below"
        below = tuple(
            self.replaced(each, level + 1, topic) if self._is_wanted(each, level + 1) else each
            for each in getattr(answer, array)
        )
        return replace(answer, **{array: below})

    def _is_wanted(self, entry: Message, level: int) -> bool:
        if level == self._levels.topics:
            return self._only.has_topic(self._topic(entry, level), getattr(entry, _TOPIC_ID, ""))
        is_partition = self._only.partition is not None and level == self._levels.partitions
        return not is_partition or self._partition(entry, level) == self._only.partition

    def _topic(self, entry: Message, level: int) -> str:
        name = _first(type(entry), _TOPIC_NAMES, self._version) if level and level == self._levels.topics else None
        return (getattr(entry, name) or "") if name else ""

    def _partition(self, entry: Message, level: int) -> int | None:
        name = _first(type(entry), _PARTITIONS, self._version) if level and level == self._levels.partitions else None
        return getattr(entry, name) if name else None


def _identity(kind: type[Message], asked: object, version: int) -> dict[str, object] | None:
    """Return the fields of `kind` that say what it is about, from an element of a request; None if it has none."""
    wanted = [name for name in _IDENTIFYING if _has(kind, name, version)]
    if not isinstance(asked, Message):
        return {wanted[0]: asked} if wanted else None
    found = {name: _value(asked, name, version) for name in wanted}
    present = {name: value for name, value in found.items() if value is not None}
    for name, element in _arrays(kind, version):
        if name == _ENTITY:
            parts = (msgspec.structs.asdict(part) for part in getattr(asked, name))
            present[name] = tuple(element(**part) for part in parts)
    return present if present or not wanted else None


def _value(asked: Message, name: str, version: int) -> object:
    """Return a field of an element of a request by its name in the answer; None if it has no such field."""
    synonyms = next((each for each in _SYNONYMS if name in each), ())
    source = _first(type(asked), (name, *synonyms), version)
    return None if source is None else getattr(asked, source)


def _unknown(kind: type[M], version: int, values: Mapping[str, object] = MappingProxyType({})) -> M:
    """Return a struct with these values, and the values that stand beside an error."""
    others = _UNKNOWN.get(kind, {})
    fields = (field for field in fields_of(kind) if field.name in others and version in field.versions)
    can_hold = {field.name for field in fields if others[field.name] is not None or field.may_be_null(version)}
    return kind(**{name: value for name, value in others.items() if name in can_hold}, **values)


def _with_code(struct: M, version: int, error: Errors, text: str) -> M:
    code = _first(type(struct), CODES, version)
    assert code is not None, "its level has a code"
    values: dict[str, Any] = {code: error}
    if error is not Errors.NONE and _has(type(struct), MESSAGE, version):
        values[MESSAGE] = text
    return replace(struct, **values)


def _joined(levels: Levels, answer: M, refused: Message, level: int) -> M:
    """Add the structs of `refused` to `answer`; structs about the same thing are joined in turn."""
    array = levels.arrays[level]
    kept: list[Message] = list(getattr(answer, array))
    for each in getattr(refused, array):
        same = next((place for place, other in enumerate(kept) if _is_same(each, other)), None)
        if same is None or level + 1 >= len(levels.arrays):
            kept.append(each)
        else:
            kept[same] = _joined(levels, kept[same], each, level + 1)
    return replace(answer, **{array: tuple(kept)})


def _is_same(one: Message, other: Message) -> bool:
    return all(getattr(one, name, None) == getattr(other, name, None) for name in _IDENTIFYING)


# ------------------------------------------------------------------ classes


def _array_with_codes(kind: type[Message], version: int) -> tuple[str, type[Message]] | None:
    """Return the array of a class whose structs have codes, or have others with codes below them."""
    for name, element in _arrays(kind, version):
        if _first(element, CODES, version) or _array_with_codes(element, version) is not None:
            return name, element
    return None


def _arrays(kind: type[Message], version: int) -> Iterator[tuple[str, type[Message]]]:
    for field in fields_of(kind):
        if version in field.versions and isinstance(field.type, ArrayOf) and isinstance(field.type.element, StructOf):
            yield field.name, field.type.element.message


def _is_topic(kind: type[Message]) -> bool:
    """Whether a struct is about a topic. A field `name` may be any thing's, so its class has to say so."""
    names = {field.name for field in fields_of(kind)}
    return "topic" in names or "topic_name" in names or ("name" in names and "topic" in kind.__name__.lower())


@cache
def _has(kind: type[Message], name: str, version: int) -> bool:
    return any(field.name == name and version in field.versions for field in fields_of(kind))


def _first(kind: type[Message], names: Sequence[str], version: int) -> str | None:
    return next((name for name in names if _has(kind, name, version)), None)
