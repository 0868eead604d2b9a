"""Which lines bound the wall clocks of two machines, and by how much: small logs, each of one fact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import written_log
from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.history.kafka_logs.clock_alignment import aligned_clocks
from understudy.history.kafka_logs.clock_offsets import ImportedClocks, clock_of_broker, clock_of_transaction
from understudy.history.kafka_logs.clock_pairs import ClockPairs
from understudy.history.kafka_logs.entries import LogSource, log_sources
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.reading.clocks import WALL_CLOCK, Incarnation
from understudy.history.reading.transaction_log import OpenedSession

SECOND_MS = 1_777_636_800_000
"""The time 12:00:00 of the lines."""

ONE, TWO = clock_of_broker(1), clock_of_broker(2)
STATE = "LeaderAndIsr(leader=2, leaderEpoch=1, isr=List(2), leaderRecoveryState=RECOVERED, partitionEpoch=4)"
ELECTED = (
    "01,000 INFO [Controller id=1] 1 successfully elected as the controller. Epoch incremented to 5 and epoch zk "
    "version is now 7"
)
LIVE = "01,001 INFO [Controller id=1] {} broker epochs cache: HashMap(1 -> 64, 2 -> 65)"
REGISTERED = (
    "00,100 INFO Registered broker 2 at path /brokers/ids/2 with addresses: x, czxid (broker epoch): 65 "
    "(kafka.zk.KafkaZkClient)"
)
SENT = "{} INFO [Controller id=1 epoch=5] Sending UpdateMetadata request to brokers Set(2) for {} partitions"
UPDATED = (
    "{} INFO [Broker id=2] Add {} partitions and deleted 0 partitions from metadata cache in response to "
    "UpdateMetadata request sent by controller 1 epoch 5 with correlation id {}"
)


def pairs_of(tmp_path: Path, *lines: tuple[int, EntryKind, Sequence[str]]) -> ClockPairs:
    """Return the pairs of small logs, each of a broker and a kind."""
    pairs = ClockPairs()
    files = [
        (broker, written_log(tmp_path / f"{broker}" / kind.value, kind, sorted(of_log)))
        for broker, kind, of_log in lines
    ]
    sources = log_sources(files, LinePattern()).sources
    for broker in sorted({source.broker for source in sources}):
        own = [LogSource(broker, one.parts).entries(LinePattern()) for one in sources if one.broker == broker]
        pairs.add_broker(broker, sorted((entry for of_kind in own for entry in of_kind), key=lambda entry: entry.ms))
    pairs.end()
    return pairs


def gaps(pairs: ClockPairs) -> dict[tuple[Incarnation, Incarnation], list[float]]:
    """Return by how many milliseconds the later line of each kept pair is later, by the clocks that wrote it."""
    return {
        clocks: sorted(order.gap_us / 1000 for order in stretches)
        for clocks, stretches in pairs.evidence.messages.items()
    }


def test_a_request_is_paired_with_its_receipt_by_the_number_in_its_channel(tmp_path: Path) -> None:
    """The first one has no partitions, so that its receiver logs nothing; times are cut to whole milliseconds."""
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.CONTROLLER, [ELECTED, LIVE.format("Initialized")]),
        (1, EntryKind.STATE_CHANGE, [SENT.format("01,010", 0), SENT.format("01,020", 3)]),
        (2, EntryKind.SERVER, [REGISTERED]),
        (2, EntryKind.STATE_CHANGE, [UPDATED.format("01,027", 3, 1)]),
    )
    assert gaps(pairs) == {(ONE, TWO): [8.0]}


def test_a_request_of_a_channel_whose_opening_is_not_in_the_log_is_not_paired(tmp_path: Path) -> None:
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.STATE_CHANGE, [SENT.format("01,010", 3), SENT.format("01,020", 3)]),
        (2, EntryKind.SERVER, [REGISTERED]),
        (2, EntryKind.STATE_CHANGE, [UPDATED.format("01,027", 3, 1)]),
    )
    assert gaps(pairs) == {}


def test_a_request_after_an_attempt_that_failed_is_paired_with_the_earliest_it_can_be(tmp_path: Path) -> None:
    """The failed attempt has used correlation id 1, so that the request with id 2 is the second or the third."""
    failed = (
        "01,015 WARN [RequestSendThread controllerId=1] Controller 1 epoch 5 fails to send request (x) to broker "
        "localhost:9092 (id: 2 rack: null). Reconnecting to broker. (kafka.controller.RequestSendThread)"
    )
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.CONTROLLER, [ELECTED, LIVE.format("Initialized"), failed]),
        (1, EntryKind.STATE_CHANGE, [SENT.format(f"01,0{second}", 3) for second in (10, 20, 30)]),
        (2, EntryKind.SERVER, [REGISTERED]),
        (2, EntryKind.STATE_CHANGE, [UPDATED.format("01,037", 3, 2)]),
    )
    assert gaps(pairs) == {(ONE, TWO): [18.0]}


def test_the_first_requests_to_a_new_broker_are_logged_before_its_epoch(tmp_path: Path) -> None:
    added = (
        "01,005 INFO [Controller id=1] Newly added brokers: 2, deleted brokers: , bounced brokers: , all live brokers: "
        "1,2"
    )
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.CONTROLLER, [ELECTED, added, LIVE.format("Updated").replace("01,001", "01,025")]),
        (1, EntryKind.STATE_CHANGE, [SENT.format("01,010", 3), SENT.format("01,020", 3), SENT.format("01,030", 4)]),
        (2, EntryKind.SERVER, [REGISTERED]),
        (2, EntryKind.STATE_CHANGE, [UPDATED.format("01,033", 4, 2)]),
    )
    assert gaps(pairs) == {(ONE, TWO): [4.0]}


def test_an_answer_at_trace_bounds_the_other_direction(tmp_path: Path) -> None:
    answer = (
        "01,040 TRACE [Controller id=1 epoch=5] Received response UpdateMetadataResponseData(errorCode=0) for request "
        "UPDATE_METADATA with correlation id 0 sent to broker localhost:9092 (id: 2 rack: null)"
    )
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.CONTROLLER, [ELECTED, LIVE.format("Initialized")]),
        (1, EntryKind.STATE_CHANGE, [SENT.format("01,020", 3), answer]),
        (2, EntryKind.SERVER, [REGISTERED]),
        (2, EntryKind.STATE_CHANGE, [UPDATED.format("01,027", 3, 0)]),
    )
    assert gaps(pairs) == {(ONE, TWO): [8.0], (TWO, ONE): [14.0]}


def test_the_partition_epoch_of_an_isr_bounds_both_directions(tmp_path: Path) -> None:
    pairs = pairs_of(
        tmp_path,
        (1, EntryKind.CONTROLLER, [f"01,030 DEBUG [Controller id=1] ISR for partition t-0 updated to {STATE}."]),
        (
            2,
            EntryKind.SERVER,
            [
                "01,010 INFO [Partition t-0 broker=2] Shrinking ISR from 1,2 to 2. (kafka.cluster.Partition)",
                "01,050 INFO [Partition t-0 broker=2] ISR updated to 2  and version updated to 4 "
                "(kafka.cluster.Partition)",
            ],
        ),
    )
    assert gaps(pairs) == {(TWO, ONE): [21.0], (ONE, TWO): [21.0]}


def test_transactions_bound_the_clock_of_each_leader_of_zookeeper(tmp_path: Path) -> None:
    pairs = ClockPairs()
    first, second = 65, (1 << 32) + 1
    registration = ZnodeOp(OpKind.CREATE, "/brokers/ids/2", b"{}", 0)
    log = written_log(
        tmp_path / "server.log",
        EntryKind.SERVER,
        [
            "00,040 INFO Creating /brokers/ids/2 (is it secure? false) (kafka.zk.KafkaZkClient)",
            REGISTERED,
            "00,500 INFO [ZooKeeperClient Kafka server] Initializing a new session to x "
            "(kafka.zookeeper.ZooKeeperClient)",
            "00,600 INFO Session establishment complete on server x, session id = 0x1a, negotiated timeout = 6000 "
            "(org.apache.zookeeper.ClientCnxn)",
        ],
    )
    (source,) = log_sources([(2, log)], LinePattern()).sources
    pairs.add_broker(2, source.entries(LinePattern()))
    pairs.add_transactions(
        [
            ZnodeTransaction(first, SECOND_MS + 60.0, 0, (registration,)),
            OpenedSession(second, SECOND_MS + 7_200_000.0, 0x1A, 6_000),
        ]
    )
    pairs.end()
    one, other = clock_of_transaction(first), clock_of_transaction(second)
    assert one != other
    assert gaps(pairs) == {
        (TWO, one): [21.0],
        (one, TWO): [41.0],
        (TWO, other): [7_199_501.0],
        (other, TWO): [-7_199_399.0],
    }


def clocks_of(*ends: tuple[Incarnation, int, Incarnation, int]) -> ImportedClocks:
    """Align clocks by pairs of an earlier and a later time in milliseconds after `SECOND_MS`."""
    pairs = ClockPairs()
    for earlier, earlier_ms, later, later_ms in ends:
        for clock, ms in ((earlier, earlier_ms), (later, later_ms)):
            pairs.saw(clock, SECOND_MS + ms)
        pairs.pair(earlier, SECOND_MS + earlier_ms, later, SECOND_MS + later_ms)
    return aligned_clocks(pairs)


@pytest.mark.parametrize("skew_ms", [0, 40, -40])
def test_a_clock_that_fits_stays_as_it_is(skew_ms: int) -> None:
    clocks = clocks_of((ONE, 1_000, TWO, 1_050 + skew_ms), (TWO, 1_100 + skew_ms, ONE, 1_150))
    found = clocks.of(TWO)
    assert found is not None
    assert {point.offset_us for point in found.clock.points} == {0}
    assert 50_000 + abs(skew_ms) * 1000 <= min(point.within_us for point in found.clock.points) < 93_000


def test_a_clock_that_does_not_fit_is_moved_into_its_bounds() -> None:
    clocks = clocks_of((ONE, 1_000, TWO, 9_050), (TWO, 9_100, ONE, 1_150))
    found = clocks.of(TWO)
    assert found is not None
    assert all(abs(point.offset_us + 8_000_000) <= 1_000 for point in found.clock.points)
    assert "−8,000.0 ms ± 51." in str(found)
    assert str(found).endswith("2 pairs; these are few; this wall clock is wrong, or the others are")


def test_a_clock_without_pairs_is_taken_to_be_right_within_a_second() -> None:
    pairs = ClockPairs()
    pairs.saw(ONE, SECOND_MS)
    pairs.saw(TWO, SECOND_MS + 100)
    found = aligned_clocks(pairs).of(TWO)
    assert found is not None
    assert found.clock.evidence == WALL_CLOCK
    assert min(point.within_us for point in found.clock.points) >= 1_000_000
    assert str(found).endswith("they do not bound it from both sides, so it is taken to be right within a second")


def test_pairs_that_contradict_each_other_are_said() -> None:
    clocks = clocks_of((ONE, 1_000, TWO, 1_010), (TWO, 1_020, ONE, 1_030), (ONE, 2_000, TWO, 900))
    assert clocks.contradictions == ("broker-1 and broker-2",)


def test_one_clock_is_not_aligned() -> None:
    pairs = ClockPairs()
    pairs.saw(ONE, SECOND_MS)
    assert aligned_clocks(pairs).clocks == ()
