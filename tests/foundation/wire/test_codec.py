"""The codec beyond equal bytes: round trips, values that a version cannot express, defaults of absent fields."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.wire.values import EVERY_MESSAGE, EVERY_VERSION, IDS, QUICK, messages, versions
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.codec import compile_codec, decode, encode
from understudy.foundation.wire.errors import UnencodableValue, UnsupportedVersion
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest
from understudy.foundation.wire.messages.fetch import FetchReplicaState, FetchRequest
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest
from understudy.foundation.wire.primitives import Shapes
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import Message, int16, int32, int64, since, tag


@pytest.mark.parametrize(("api", "message", "version"), EVERY_VERSION, ids=IDS)
def test_a_written_message_is_read_back_equal(api: Api, message: type[Message], version: int) -> None:
    @QUICK
    @given(value=messages(message, version))
    def check(value: Message) -> None:
        assert decode(message, version, encode(value, version)) == value

    check()


@pytest.mark.parametrize(("api", "message"), EVERY_MESSAGE)
def test_a_message_of_defaults_can_be_sent_in_every_version(api: Api, message: type[Message]) -> None:
    value = MetadataRequest(topics=()) if message is MetadataRequest else message()
    for version in versions(api):
        assert decode(message, version, encode(value, version)) == value, version


# ------------------------------------------------------------------ versions


def test_an_unknown_version_is_refused_with_the_known_range() -> None:
    with pytest.raises(UnsupportedVersion, match=r"LeaderAndIsrRequest: version 8 is unknown; expected 0 to 7"):
        encode(LeaderAndIsrRequest(), 8)
    with pytest.raises(UnsupportedVersion, match="expected 0 to 17"):
        decode(FetchRequest, -1, b"")


def test_a_field_that_the_version_lacks_is_refused_unless_it_has_its_default() -> None:
    request = StopReplicaRequest(topics=(StopReplicaTopicV1(name="orders", partition_indexes=(0,)),))
    assert encode(request, 1)
    with pytest.raises(UnsupportedVersion, match=r"StopReplicaRequest\.topics is set .* version 3 has no such field"):
        encode(request, 3)


def test_a_refused_field_inside_an_array_is_named() -> None:
    partition = LeaderAndIsrPartitionState(leader_recovery_state=1)
    request = LeaderAndIsrRequest(
        topic_states=(LeaderAndIsrTopicState(topic_name="orders", partition_states=(partition,)),)
    )
    with pytest.raises(
        UnsupportedVersion, match=r"topic_states\[0\]\.partition_states\[0\]\.leader_recovery_state is set to 1"
    ):
        encode(request, 5)


def test_an_ignorable_field_is_dropped_silently() -> None:
    sent = LeaderAndIsrRequest(controller_id=1, broker_epoch=77, topic_states=())
    assert decode(LeaderAndIsrRequest, 1, encode(sent, 1)) == LeaderAndIsrRequest(controller_id=1, broker_epoch=-1)


def test_a_topic_id_is_dropped_in_versions_with_topic_names() -> None:
    topic = MetadataResponseTopic(name="orders", topic_id=TopicId("A" * 20 + "Bg"))
    read = decode(MetadataResponse, 9, encode(MetadataResponse(topics=(topic,)), 9))
    assert read.topics == (MetadataResponseTopic(name="orders", topic_id=NO_TOPIC_ID),)


def test_null_is_refused_in_versions_where_the_field_is_not_nullable() -> None:
    with pytest.raises(
        UnsupportedVersion, match=r"MetadataRequest\.topics is None, but in version 0 it cannot be null; 1 and later"
    ):
        encode(MetadataRequest(topics=None), 0)
    by_id = MetadataRequest(topics=(MetadataRequestTopic(topic_id=TopicId("A" * 20 + "Bg"), name=None),))
    assert encode(by_id, 12)
    with pytest.raises(UnsupportedVersion, match=r"topics\[0\]\.name is None"):
        encode(by_id, 9)


def test_null_and_empty_arrays_differ() -> None:
    for topics in (None, ()):
        assert decode(MetadataRequest, 12, encode(MetadataRequest(topics=topics), 12)).topics == topics


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    silent = encode(FetchRequest(), 17)
    speaking = encode(FetchRequest(replica_state=FetchReplicaState(replica_id=3, replica_epoch=9)), 17)
    assert silent[-1:] == b"\0"
    assert len(speaking) == len(silent) + 2 + 13
    assert decode(FetchRequest, 17, speaking).replica_state == FetchReplicaState(replica_id=3, replica_epoch=9)


# ------------------------------------------------------------------ values that cannot be sent


def wrong(value: object) -> Any:
    """Return `value` for a field of another type."""
    return value


def leader_and_isr(topic: object) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(topic_states=(wrong(topic),))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (AlterPartitionRequest(broker_id=1 << 31), r"\.broker_id is 2147483648; expected an integer of 32 bits"),
        (AlterPartitionRequest(broker_id=wrong("one")), r"broker_id is 'one'; expected an integer"),
        (AlterPartitionRequest(topics=wrong(None)), r"topics is None; expected a tuple"),
        (leader_and_isr(LeaderAndIsrTopicState(topic_name="x" * 32768)), r"topic_name .* 32768"),
        (leader_and_isr(LeaderAndIsrTopicState(topic_name="\ud800")), r"no Unicode text"),
        (leader_and_isr(LeaderAndIsrTopicState(topic_id=TopicId("short"))), r"topic_id is 'short'"),
        (leader_and_isr(LeaderAndIsrTopicState(topic_id=TopicId("A" * 22 + "!"))), r"topic_id is 'A+!'"),
        (leader_and_isr(LeaderAndIsrPartitionState()), r"expected a LeaderAndIsrTopicState"),
    ],
)  # fmt: skip
def test_an_unencodable_value_is_named(request_: Message, text: str) -> None:
    with pytest.raises(UnencodableValue, match=text):
        encode(request_, 3 if isinstance(request_, AlterPartitionRequest) else 7)


# ------------------------------------------------------------------ evolution


class Today(Message, frozen=True, kw_only=True):
    name: str = ""
    epoch: Annotated[int64, since(0), tag(1)] = -1


class Tomorrow(Message, frozen=True, kw_only=True):
    name: str = ""
    color: Annotated[str | None, tag(0)] = None
    epoch: Annotated[int64, tag(1)] = -1
    sizes: Annotated[tuple[int16, ...], tag(200)] = ()


def test_tagged_fields_of_a_later_version_are_skipped() -> None:
    tomorrow = compile_codec(Tomorrow, 0, flexible=True)
    today = compile_codec(Today, 0, flexible=True)
    written = tomorrow.write(Tomorrow(name="orders", color="red", epoch=5, sizes=(1, 2, 3)))
    assert today.read(written) == Today(name="orders", epoch=5)
    assert tomorrow.read(today.write(Today(name="orders", epoch=5))) == Tomorrow(name="orders", epoch=5)


class Wide(Message, frozen=True, kw_only=True):
    """A message of field types that the schema allows and no message of Kafka's combines."""

    flags: tuple[bool, ...] = ()
    ids: tuple[TopicId, ...] = ()
    maybe: tuple[int32, ...] | None = None
    blobs: tuple[bytes, ...] = ()
    nested: tuple[tuple[int16, ...], ...] = ()


@pytest.mark.parametrize("flexible", [True, False])
def test_all_field_types_combine(flexible: bool) -> None:
    codec = compile_codec(Wide, 0, flexible=flexible)

    @QUICK
    @given(value=messages(Wide, 0) | st.just(Wide(maybe=tuple(range(200)))))
    def check(value: Wide) -> None:
        assert codec.read(codec.write(value)) == value

    check()


# ------------------------------------------------------------------ bounds and purity


def test_packers_are_kept_for_a_bounded_number_of_shapes() -> None:
    shapes = Shapes(("i", "x"), ("i",), flexible=True)
    for length in range(3 * shapes.most_kept):
        pack, prefix = shapes[length,]
        assert callable(pack)
        assert prefix == length + 1 or isinstance(prefix, bytes)
    assert len(shapes) <= shapes.most_kept


def test_the_codec_imports_no_socket() -> None:
    """Checked in a new process: only the request channel imports asyncio, and no module imports a transport of ours."""
    script = """
import importlib, pkgutil, sys
from understudy import foundation
import understudy.foundation.wire
names = [module.name for module in pkgutil.walk_packages(foundation.wire.__path__, "understudy.foundation.wire.")]
for name in sorted(names, key=lambda name: name == "understudy.foundation.wire.request_channel"):
    if name == "understudy.foundation.wire.request_channel":
        assert not {"socket", "ssl", "asyncio", "asyncio.streams", "selectors"} & set(sys.modules)
    importlib.import_module(name)
ours = {module for module in sys.modules if module.startswith("understudy.")} - {"understudy.foundation"}
assert all(module.startswith(("understudy.foundation.wire", "understudy.foundation.cluster")) for module in ours), ours
for module in ours:
    assert not {"socket", "open_connection", "start_server"} & set(vars(sys.modules[module])), module
print(len(names))
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) > 20


def test_a_struct_inside_messages_cannot_be_encoded_alone() -> None:
    with pytest.raises(KeyError):
        encode(FetchReplicaState(), 0)


def test_the_type_of_an_update_metadata_request_is_a_tagged_field() -> None:
    assert decode(UpdateMetadataRequest, 8, encode(UpdateMetadataRequest(type=2), 8)).type == 2


def test_bytes_after_the_end_of_a_request_are_ignored_as_in_kafka() -> None:
    """librdkafka's Metadata request for all topics, from version 9 on, has three bytes too many."""
    all_topics = MetadataRequest(topics=None)
    assert decode(MetadataRequest, 12, encode(all_topics, 12) + b"\0\0\0") == all_topics
