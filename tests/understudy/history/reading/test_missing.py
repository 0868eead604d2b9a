"""Which records of a run are missing, by each kind of evidence; and runs from which none is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import controller_never_ready, killed_controller, long_line, silent_controllers
from tests.understudy.history.reading.attested_logs import Cluster, failover
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ElectionLost,
    FaultInjected,
    LogSeen,
    Payload,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    RequestSent,
    RunDescribed,
    StepReached,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.reading.missing import (
    NO_ELECTION,
    NO_END,
    NO_INCARNATION,
    NO_LOG,
    NO_RECORDS,
    NOT_ENDED,
    MissingRecords,
    find_missing,
)
from understudy.history.reading.reader import find_files, read_lines, read_runs
from understudy.history.reading.run_builder import run_records_of

SAMPLES = Path("tests/samples/0.1.0")


def missing(logs: Logs) -> tuple[MissingRecords, ...]:
    reading = read_lines(logs.lines)
    return find_missing(run_records_of(reading.records, reading.sequences))


def only(logs: Logs) -> MissingRecords:
    (found,) = missing(logs)
    return found


def stretches(logs: Logs) -> list[tuple[str, str, int]]:
    """Return kind, node and incarnation of all that is missing, by time."""
    return [(found.kind, found.node, found.incarnation) for found in missing(logs)]


def without(logs: Cluster, *nodes: str) -> Cluster:
    logs.lines = {name: lines for name, lines in logs.lines.items() if not name.startswith(nodes)}
    return logs


def shortened(logs: Cluster, name: str, keep: Callable[[list[bytes]], list[bytes]]) -> Cluster:
    logs.lines[f"{name}-0001.jsonl"] = keep(logs.lines[f"{name}-0001.jsonl"])
    return logs


# ------------------------------------------------------------------ complete runs


@pytest.mark.parametrize("boot", ["boot-1", ""])
@pytest.mark.parametrize("has_testbed", [True, False])
def test_no_record_of_a_run_with_a_killed_controller_is_missing(boot: str, has_testbed: bool) -> None:
    assert missing(failover(boot=boot, has_testbed=has_testbed)) == ()


@pytest.mark.parametrize("story", [killed_controller, controller_never_ready, silent_controllers, long_line])
def test_no_record_of_a_run_written_by_hand_is_missing(story: Callable[[], Logs]) -> None:
    assert missing(story()) == ()


@pytest.mark.parametrize("sample", ["local-cluster", "simulated-cluster"])
def test_no_record_of_an_old_run_is_missing(sample: str) -> None:
    reading = read_runs(find_files([SAMPLES / sample])[0])
    assert [find_missing(run) for run in reading.runs.values()] == [()]


def test_a_run_without_a_record_is_not_missing_any() -> None:
    assert find_missing(run_records_of(())) == ()


# ------------------------------------------------------------------ nodes


def test_the_log_of_the_second_controller_is_missing() -> None:
    logs, removed = without(failover(), "broker-2"), failover().lines["broker-2-0001-0001.jsonl"]
    assert removed
    log, election = missing(logs)
    assert (log.kind, log.node, log.incarnation) == (NO_LOG, "broker-2", 0)
    assert (log.from_us, log.until_us) == (0, 8_500_000)
    assert log.evidence == "it was live when broker-1 became controller"
    assert log.witness == "broker-1/1#6"
    assert (election.kind, election.node, election.from_us) == (NO_ELECTION, "", 200_000)
    assert election.evidence == "broker-3 received epoch 2 from a controller, and no record has its election"


@pytest.mark.parametrize(
    ("payload", "evidence"),
    [
        (BrokersChanged(new=(4,), dead=(), bounced=(), live=(1, 2, 3, 4)), "broker-2 saw its registration"),
        (BrokersChanged(new=(), dead=(4,), bounced=(), live=(1, 2, 3)), "broker-2 saw its registration"),
        (ElectionLost(winner=4), "it won the election that broker-2 lost"),
        (
            RequestSent(to=4, api="LeaderAndIsr", api_version=7, client_id="2", correlation_id=0),
            "broker-2 sent it a request",
        ),
        (FaultInjected(fault="kill", target="broker-4"), "broker-2 recorded a fault of it: kill"),
    ],
)
def test_a_broker_that_another_one_names_has_a_log(payload: Payload, evidence: str) -> None:
    logs = failover(has_testbed=False)
    seq = logs.write(9001, "broker-2", payload)
    found = only(logs)
    assert (found.kind, found.node, found.evidence) == (NO_LOG, "broker-4", evidence)
    assert found.witness == f"broker-2/1#{seq}"


def test_a_node_whose_log_the_testbed_saw_has_a_log() -> None:
    logs = failover()
    logs.lines["testbed-0001-0001.jsonl"].pop()
    logs.write(9500, "testbed", LogSeen(node="broker-4", incarnation=1, seq=0))
    logs.write(9500, "testbed", LogSeen(node="broker-5", incarnation=1, seq=1))
    logs.write(9500, "testbed", ProcessExiting(reason="stopped"))
    kinds = {(found.kind, found.node) for found in missing(logs)}
    assert (NO_LOG, "broker-5") in kinds
    assert (NO_LOG, "broker-4") not in kinds, "it was seen without a record"


def test_brokers_that_no_record_names_are_counted() -> None:
    logs = Cluster(boot="")
    logs.start(1000, "testbed")
    logs.write(1000, "testbed", RunDescribed(brokers=3))
    logs.start(1100, "broker-1")
    logs.write(1200, "testbed", ProcessExiting(reason="stopped"))
    found = only(logs)
    assert (found.kind, found.node, found.witness) == (NO_LOG, "", "testbed/1#2")
    assert found.evidence == "the run has 3 brokers, and its records name 1"


def test_a_broker_that_never_started_needs_no_log_if_the_testbed_saw_the_others() -> None:
    logs = Cluster()
    logs.start(1000, "testbed")
    logs.write(1000, "testbed", RunDescribed(brokers=2))
    logs.start(1100, "broker-1")
    logs.end(1200)
    assert missing(logs) == ()


def test_a_node_without_a_log_by_design_is_not_missing() -> None:
    """A broker of Apache Kafka may be the controller as well, so that an epoch without an election is in order."""
    logs = failover(has_testbed=False)
    logs.start(9000, "testbed")
    logs.write(9000, "testbed", RunDescribed(brokers=4, without_log=("broker-4",)))
    logs.write(9001, "broker-2", ElectionLost(winner=4))
    logs.node("broker-2").saw_controller_epoch(3)
    logs.write(9002, "broker-2", StepReached(step="epoch 3"))
    logs.write(9003, "testbed", ProcessExiting(reason="stopped"))
    assert missing(logs) == ()


def test_a_broker_with_a_generated_id_has_the_log_of_its_first_process() -> None:
    logs = failover(has_testbed=False)
    logs.at(2000, "broker-unnumbered-77", ProcessStarted(role="broker", boot="boot-1"))
    logs.at(2001, "broker-unnumbered-77", BrokerRegistered(broker_id=1001, broker_epoch=90, session_id=7))
    logs.write(9001, "broker-2", BrokersChanged(new=(1001,), dead=(), bounced=(), live=(1, 2, 3, 1001)))
    assert missing(logs) == ()


def test_faults_of_containers_name_services_and_no_nodes() -> None:
    logs = failover(has_testbed=False)
    logs.start(9000, "testbed")
    logs.write(9000, "testbed", RunDescribed(world="containers"))
    logs.write(9001, "testbed", FaultInjected(fault="kill", target="broker-4"))
    logs.write(9002, "testbed", ProcessExiting(reason="the verb is done"))
    assert missing(logs) == ()


# ------------------------------------------------------------------ incarnations


def restarts(count: int, *, boot: str = "boot-1") -> Cluster:
    logs = Cluster(boot=boot, has_testbed=False)
    for number in range(count):
        logs.start(1000 + 100 * number, "broker-1")
    return logs


@pytest.mark.parametrize("boot", ["boot-1", ""])
def test_a_gap_in_the_incarnations_is_an_incarnation_without_a_log(boot: str) -> None:
    found = only(without(restarts(4, boot=boot), "broker-1-0003"))
    assert (found.kind, found.node, found.incarnation) == (NO_INCARNATION, "broker-1", 3)
    assert (found.from_us, found.until_us) == (101_000, 300_000)
    assert (found.evidence, found.witness) == ("there is an incarnation 4", "broker-1/4#1")


def test_a_gap_of_many_incarnations_is_one_stretch() -> None:
    found = only(without(restarts(5), "broker-1-0002", "broker-1-0003", "broker-1-0004"))
    assert (found.kind, found.node, found.incarnation) == (NO_INCARNATION, "broker-1", 0)
    assert found.evidence == "there is an incarnation 5, but none of 2 to 4"


@pytest.mark.parametrize("boot", ["boot-1", ""])
def test_the_first_incarnation_is_missing(boot: str) -> None:
    found = only(without(restarts(2, boot=boot), "broker-1-0001"))
    assert (found.kind, found.incarnation, found.from_us, found.until_us) == (NO_INCARNATION, 1, 0, 0)


def test_incarnations_of_another_run_in_the_same_folder_are_not_missing() -> None:
    logs = Cluster(has_testbed=False)
    logs.incarnations["broker-1"] = 4  # the last record of incarnation 4 has another run, so that after_seq is 0
    logs.start(1000, "broker-1")
    assert missing(logs) == ()


def test_an_incarnation_that_was_killed_before_its_first_record_is_not_missing() -> None:
    logs = restarts(1)
    logs.incarnations["broker-1"] = 2  # the file of incarnation 2 is empty, so that after_seq is 0
    logs.start(2000, "broker-1")
    assert missing(logs) == ()


def test_a_later_incarnation_that_the_testbed_saw_is_missing() -> None:
    found = only(without(failover(), "broker-1-0002"))
    assert (found.kind, found.node, found.incarnation) == (NO_INCARNATION, "broker-1", 2)
    assert (found.from_us, found.until_us) == (301_000, 8_500_000)
    assert found.evidence == "testbed saw the log of incarnation 2"


def test_an_incarnation_that_answered_as_a_registered_broker_is_missing() -> None:
    """Without a testbed and a later incarnation only its broker epoch, in the requests to it, shows it."""
    found = only(without(failover(has_testbed=False), "broker-1-0002"))
    assert (found.kind, found.node, found.incarnation) == (NO_INCARNATION, "broker-1", 0)
    assert found.evidence == "broker-2 received its answer to UpdateMetadata #0"


# ------------------------------------------------------------------ ends


def test_the_testbed_has_seen_more_of_a_log() -> None:
    found = only(shortened(failover(), "broker-2-0001", lambda lines: lines[:-1]))
    assert (found.kind, found.node, found.incarnation) == (NO_END, "broker-2", 1)
    assert (found.from_us, found.until_us) == (5_101_000, 8_500_000)
    assert found.evidence == "testbed saw 12 records of it, and there are 11"
    assert found.witness == "testbed/1#6"


def test_the_next_incarnation_has_found_more_of_a_log() -> None:
    logs = failover(has_testbed=False)
    logs.lines["broker-1-0001-0001.jsonl"].pop()
    found = only(logs)
    assert (found.kind, found.node, found.incarnation) == (NO_END, "broker-1", 1)
    assert found.until_us == 4_900_000
    assert found.evidence == "incarnation 2 found 10 records of it, and there are 9"


def test_a_broker_has_answered_a_request_that_its_log_lacks() -> None:
    logs = shortened(failover(boot="", has_testbed=False), "broker-3-0001", lambda lines: lines[:3])
    found = only(logs)
    assert (found.kind, found.node, found.incarnation) == (NO_END, "broker-3", 1)
    assert found.evidence == "broker-2 received its answer to UpdateMetadata #0"


def test_a_broker_has_received_a_request_that_the_controllers_log_lacks() -> None:
    logs = shortened(failover(boot="", has_testbed=False), "broker-2-0001", lambda lines: lines[:7])
    found = only(logs)
    assert (found.kind, found.node, found.incarnation) == (NO_END, "broker-2", 1)
    assert found.evidence == "broker-3 received its UpdateMetadata #0"


def test_a_broker_that_was_stopped_has_a_last_record() -> None:
    logs = Cluster(boot="")
    logs.start(1000, "testbed")
    logs.start(1100, "broker-1")
    logs.write(2000, "testbed", FaultInjected(fault="stop", target="broker-1"))
    logs.write(3000, "testbed", FaultInjected(fault="start", target="broker-1"))
    logs.start(3100, "broker-1")
    logs.write(4000, "testbed", ProcessExiting(reason="stopped"))
    found = only(logs)
    assert (found.kind, found.node, found.incarnation) == (NO_END, "broker-1", 1)
    assert found.evidence == "testbed stopped it, and it has no ProcessExiting"


@pytest.mark.parametrize(
    "instead",
    [
        FaultInjected(fault="kill", target="broker-1"),
        FaultInjected(fault="power_loss", target="broker-1"),
        PointReached(point="failover.after_epoch", action="crash"),
    ],
)
def test_a_broker_that_was_stopped_and_killed_has_no_last_record(instead: Payload) -> None:
    logs = Cluster(boot="")
    logs.start(1000, "testbed")
    logs.start(1100, "broker-1")
    logs.write(2000, "testbed", FaultInjected(fault="stop", target="broker-1"))
    logs.write(2100, "testbed" if isinstance(instead, FaultInjected) else "broker-1", instead)
    logs.start(3100, "broker-1")
    logs.write(4000, "testbed", ProcessExiting(reason="stopped"))
    assert missing(logs) == ()


def test_a_run_may_end_while_a_broker_stops() -> None:
    logs = Cluster(boot="")
    logs.start(1000, "testbed")
    logs.start(1100, "broker-1")
    logs.write(2000, "testbed", FaultInjected(fault="stop", target="broker-1"))
    logs.write(2001, "testbed", ProcessExiting(reason="closed"))
    assert missing(logs) == ()


def test_records_after_the_testbed_has_seen_a_log_are_not_too_many() -> None:
    """A verb of docker-compose ends its testbed while the brokers run on."""
    logs = failover()
    logs.write(9600, "broker-2", StepReached(step="after the testbed"))
    assert missing(logs) == ()


# ------------------------------------------------------------------ sequence numbers


def test_the_beginning_of_a_log_is_missing() -> None:
    found = only(shortened(failover(), "broker-1-0002", lambda lines: lines[2:]))
    assert (found.kind, found.node, found.incarnation) == (NO_RECORDS, "broker-1", 2)
    assert (found.from_us, found.until_us) == (301_000, 5_100_500), "from the last record of incarnation 1"
    assert (found.evidence, found.witness) == ("its log has record 3, but not 1 to 2", "broker-1/2#3")


def test_a_line_within_a_log_is_missing() -> None:
    found = only(shortened(failover(), "broker-2-0001", lambda lines: [*lines[:3], *lines[4:]]))
    assert (found.kind, found.node, found.incarnation) == (NO_RECORDS, "broker-2", 1)
    assert (found.from_us, found.until_us) == (298_500, 4_000_000)
    assert (found.evidence, found.witness) == ("its log has record 5, but not 4", "broker-2/1#5")


def test_a_record_of_a_newer_type_is_not_missing() -> None:
    def newer(lines: list[bytes]) -> list[bytes]:
        return [*lines[:3], msgspec.json.encode(msgspec.json.decode(lines[3]) | {"type": "Newer"}) + b"\n", *lines[4:]]

    assert missing(shortened(failover(), "broker-2-0001", newer)) == ()
    logs = shortened(failover(), "broker-2-0001", lambda lines: newer(lines)[:4])
    (end,) = (found for found in missing(logs) if found.kind == NO_END)
    assert end.evidence == "testbed saw 12 records of it, and there are 4", "the newer one is counted"


# ------------------------------------------------------------------ elections


def test_an_epoch_between_two_elections_has_an_election() -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 4, (1,))
    logs.elect(1300, 1, 7, (1,))
    found = only(logs)
    assert (found.kind, found.node, found.incarnation) == (NO_ELECTION, "", 0)
    assert (found.from_us, found.until_us) == (100_000, 300_000)
    assert found.evidence == ("broker-1 was elected for epoch 7, and no record has the election of epochs 5 to 6")


@pytest.mark.parametrize("outcome", ["Ok", "Unknown", None])
def test_a_broker_may_be_killed_before_it_records_its_election(outcome: str | None) -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 4, (1,))
    logs.start(1150, "broker-1")
    write = ZkWrite(purpose="election", paths=("/controller",), operations=2, fenced=False)
    seq = logs.write(1200, "broker-1", write)
    if outcome is not None:
        logs.write(1201, "broker-1", ZkWriteDone(outcome=outcome), cause=seq)
    logs.start(1250, "broker-1")
    logs.elect(1300, 1, 6, (1,))
    assert missing(logs) == ()


def test_an_election_that_was_lost_takes_no_epoch() -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 4, (1,))
    write = ZkWrite(purpose="election", paths=("/controller",), operations=2, fenced=False)
    logs.write(1201, "broker-1", ZkWriteDone(outcome="NodeExists"), cause=logs.write(1200, "broker-1", write))
    logs.elect(1300, 1, 6, (1,))
    assert only(logs).evidence == "broker-1 was elected for epoch 6, and no record has the election of epoch 5"


def test_an_operator_may_write_the_controller_epoch() -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 4, (1,))
    logs.write(1200, "broker-1", FaultInjected(fault="write", target="/controller_epoch"))
    logs.elect(1300, 1, 9, (1,))
    assert missing(logs) == ()


def test_epochs_before_the_run_need_no_election() -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 40, (1,))
    assert missing(logs) == ()


@pytest.mark.parametrize(("epoch", "from_us", "until_us"), [(3, 0, 100_000), (5, 100_000, 1_000_000)])
def test_an_epoch_that_a_broker_received_has_an_election(epoch: int, from_us: int, until_us: int) -> None:
    logs = Cluster(has_testbed=False)
    logs.start(1000, "broker-1")
    logs.elect(1100, 1, 4, (1,))
    logs.start(1500, "broker-2")
    logs.node("broker-2").saw_controller_epoch(epoch)
    logs.write(2000, "broker-2", WatchFiredRecord(path="/controller", kind="deleted"))
    found = only(logs)
    assert (found.kind, found.from_us, found.until_us) == (NO_ELECTION, from_us, until_us)
    assert found.witness == "broker-2/1#3"


# ------------------------------------------------------------------ the testbed


def test_the_log_of_the_faults_is_missing() -> None:
    found = only(without(failover(), "testbed"))
    assert (found.kind, found.node, found.from_us, found.until_us) == (NO_LOG, "testbed", 0, 7_900_000)
    assert (found.evidence, found.witness) == ("broker-1 was started beside a testbed", "broker-1/1#1")


def test_the_end_of_the_log_of_the_faults_is_missing() -> None:
    found = only(shortened(failover(), "testbed-0001", lambda lines: lines[:3]))
    assert (found.kind, found.node, found.incarnation) == (NOT_ENDED, "testbed", 1)
    assert (found.from_us, found.until_us) == (3_000_000, 8_000_000)
    assert found.evidence == "it has no ProcessExiting: the run has not ended, or the end of this log is missing"
    assert found.witness == "testbed/1#3"


def test_a_verb_ends_its_own_log_of_faults() -> None:
    logs = failover()
    logs.start(9600, "testbed")
    logs.write(9601, "testbed", FaultInjected(fault="pause", target="broker-2"))
    assert stretches(logs) == [(NOT_ENDED, "testbed", 2)]
    logs.write(9602, "testbed", ProcessExiting(reason="the verb is done"))
    assert missing(logs) == ()
    logs.lines["testbed-0001-0001.jsonl"].pop()
    assert stretches(logs) == [(NO_END, "testbed", 1)], "the second verb has found one record more"


def test_the_logs_of_a_run_that_has_not_ended_are_read_one_after_the_other() -> None:
    """A broker's log was read before the controller received its answer; the controller's log was read after that."""
    logs = failover(boot="")
    del logs.lines["testbed-0001-0001.jsonl"][-4:]
    del logs.lines["broker-3-0001-0001.jsonl"][3:]
    logs.node("broker-1", 2).saw_controller_epoch(3)
    logs.write(9001, "broker-1", BrokersChanged(new=(4,), dead=(), bounced=(), live=(1, 2, 3, 4)))
    assert stretches(logs) == [(NOT_ENDED, "testbed", 1)]
    logs.write(14_001, "broker-2", StepReached(step="five seconds later"))
    assert stretches(logs) == [
        (NO_LOG, "broker-4", 0),
        (NO_END, "broker-3", 1),
        (NO_ELECTION, "", 0),
        (NOT_ENDED, "testbed", 1),
    ]


# ------------------------------------------------------------------ words


def test_what_is_missing_is_said_in_a_sentence() -> None:
    assert str(only(without(failover(), "testbed"))) == (
        "records missing: testbed, from 0.000 s to 7.900 s: broker-1 was started beside a testbed (broker-1/1#1)"
    )
    (_, election) = missing(without(failover(), "broker-2"))
    assert str(election).startswith("records missing: the controller of another epoch, from 0.200 s to 8.500 s: ")
