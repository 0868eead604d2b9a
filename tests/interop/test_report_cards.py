"""The judge of the report cards finds each kind of failure; the drivers in Python pass beside our brokers.

The fast tests judge lines that no client has printed. docs/reference/clients.md is what the tool makes of the cards it
kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from devtools.building import NotBuilt
from devtools.report_cards.drivers import DRIVERS, EXAMPLES, Driver, go_driver
from devtools.report_cards.events import (
    Admin,
    Assigned,
    End,
    Event,
    Failed,
    Line,
    NotAnEvent,
    Read,
    Ready,
    Sent,
    parse,
)
from devtools.report_cards.judge import (
    Card,
    Observed,
    Record,
    has_recovered,
    is_steady,
    judge,
    longest_pause_ms,
    recovery_ms,
    wrong_records,
)
from devtools.report_cards.members import is_steady_member, judge_group
from devtools.report_cards.page import OURS, PAGE, Kept, load, page, store
from devtools.report_cards.run import run_scene, topic_of
from devtools.report_cards.scenes import SCENES, leader_killed
from tests.shares import at_night

FAULT_MS = 1_000
READY = Ready(client="made-up", version="1.0")


def lines(*timed: tuple[int, Event]) -> tuple[Line, ...]:
    return tuple(Line(at_ms, event) for at_ms, event in timed)


def healthy(*, gap_ms: int = 100, values: int = 40) -> list[tuple[int, Event]]:
    """A record every 50 ms from 0 on, each sent and read; nothing between the fault and `gap_ms` later."""
    timed: list[tuple[int, Event]] = [(0, READY)]
    for value in range(values):
        at_ms = 50 * value
        at_ms += gap_ms if at_ms >= FAULT_MS else 0
        timed += [(at_ms, Sent(value, value)), (at_ms + 1, Read(value, value))]
    timed += [(500, Admin(ok=True, took_ms=10)), (5_000, Admin(ok=True, took_ms=1_000)), (9_000, End())]
    return sorted(timed, key=lambda each: each[0])


def log(values: Sequence[int] = range(40)) -> tuple[Record, ...]:
    return tuple(Record(offset, value) for offset, value in enumerate(values))


def card(
    timed: Sequence[tuple[int, Event]], records: tuple[Record, ...] | None = None, trouble: tuple[str, ...] = ()
) -> Card:
    return judge(Observed(lines(*timed), (FAULT_MS,), log() if records is None else records, trouble), "made-up")


# ------------------------------------------------------------------ the judge


def test_a_client_that_goes_on_passes_with_its_times() -> None:
    judged = card(healthy(gap_ms=3_000))
    assert judged.passed
    assert (judged.client, judged.version) == ("made-up", "1.0")
    assert (judged.admin_ms, judged.sent_ms, judged.read_ms) == (4_000, 3_050, 3_050)
    assert judged.admin_errors == judged.failed == {}


def test_an_admin_client_that_never_creates_a_topic_again_fails() -> None:
    timed = [each for each in healthy() if not isinstance(each[1], Admin)]
    timed[-1:] = [(600, Admin(ok=False, took_ms=1, error="EARLIER")), (2_000, refused()), (3_000, refused())]
    judged = card([*timed, (9_000, End())])
    assert judged.reasons == ("the admin client never created a topic again within 60 s",)
    assert judged.admin_ms is None
    assert judged.admin_errors == {"NOT_CONTROLLER": 2}


def refused() -> Admin:
    return Admin(ok=False, took_ms=5, error="NOT_CONTROLLER")


def test_an_attempt_that_began_before_the_fault_shows_nothing() -> None:
    before = lines((1_500, Admin(ok=True, took_ms=501)))
    assert recovery_ms(before, (FAULT_MS,)) is None
    assert recovery_ms((*before, *lines((2_000, Admin(ok=True, took_ms=1_000)))), (FAULT_MS,)) == 1_000


def test_the_admin_clients_time_is_the_longest_from_any_step_of_the_scene() -> None:
    attempts = lines((1_200, Admin(ok=True, took_ms=10)), (7_000, Admin(ok=True, took_ms=10)))
    assert recovery_ms(attempts, (1_000, 2_000)) == 5_000
    assert recovery_ms(attempts, (1_000, 8_000)) is None


def test_a_producer_that_is_never_acknowledged_again_fails() -> None:
    timed = [each for each in healthy() if each[0] < FAULT_MS or not isinstance(each[1], Sent)]
    judged = card([*timed, (8_000, Failed(20, "TimedOut"))])
    assert judged.reasons == ("the producer was never acknowledged again within 60 s",)
    assert judged.sent_ms is None
    assert judged.failed == {"TimedOut": 1}


def test_a_consumer_that_never_reads_again_fails() -> None:
    timed = [each for each in healthy() if each[0] < FAULT_MS or not isinstance(each[1], Read)]
    judged = card(timed)
    assert judged.reasons == ("the consumer never read again within 60 s",)
    assert judged.read_ms is None


def test_a_client_without_a_consumer_is_not_judged_for_it() -> None:
    timed = [each for each in healthy() if not isinstance(each[1], Read | Ready)]
    without = [(0, Ready("made-up", "1.0", without=("consumer",))), *timed]
    assert card(without).passed
    assert has_recovered(lines(*without), (FAULT_MS,))
    assert not card([(0, READY), *timed]).passed


def test_a_record_that_was_given_up_is_counted_and_fails_no_client() -> None:
    timed = [each for each in healthy() if each[1] not in (Sent(39, 39), Read(39, 39))]
    judged = card([*timed, (8_000, Failed(39, "TimedOut"))], log(range(39)))
    assert judged.passed
    assert judged.failed == {"TimedOut": 1}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([*range(39), 40], "1 records lost, although acknowledged: 39"),
        ([*range(40), 7], "1 records doubled in the log: 7"),
        ([0, 2, 1, *range(3, 40)], "1 records reordered in the log: 1"),
        ([0, 2, 1, *range(3, 40)], "2 records read, but not in the log: 1, 2"),
    ],
)
def test_a_log_that_is_not_what_was_acknowledged_fails(values: list[int], reason: str) -> None:
    assert reason in card(healthy(), log(values)).reasons


def test_a_record_that_was_acknowledged_without_an_offset_is_looked_for_by_its_value() -> None:
    assert wrong_records(lines((0, Sent(5, -1))), log([4, 5])) == []
    assert wrong_records(lines((0, Sent(6, -1))), log([4, 5])) == ["1 records lost, although acknowledged: 6"]


def test_a_consumer_that_skips_records_or_reads_them_twice_fails() -> None:
    skipped = wrong_records(lines((0, Read(0, 0)), (1, Read(2, 2))), log(range(4)))
    assert skipped == ["1 records skipped by the consumer: 1"]
    twice = wrong_records(lines((0, Read(0, 0)), (1, Read(0, 0))), log(range(4)))
    assert twice == ["1 records read twice: 0"]


def test_long_lists_of_records_are_cut() -> None:
    sent = lines(*((0, Sent(value, -1)) for value in range(7)))
    assert wrong_records(sent, ()) == ["7 records lost, although acknowledged: 0, 1, 2, 3, 4, …"]


def test_a_driver_that_does_not_start_or_end_fails() -> None:
    assert card([], (), ("the driver ended with exit code 1",)).reasons == (
        "the driver ended with exit code 1",
        "the driver did not become ready",
    )
    assert card(healthy()[:-1]).reasons == ("the driver did not end",)


def test_the_longest_pause_begins_at_the_fault_or_before_it() -> None:
    assert longest_pause_ms([0, 900, 1_500, 1_600], (FAULT_MS,)) == 600
    assert longest_pause_ms([1_500], (FAULT_MS,)) == 500
    assert longest_pause_ms([0, 5_000, 5_001], (6_000,)) is None
    assert longest_pause_ms([0, 800, 1_001, 1_002], (FAULT_MS,)) == 201


def test_a_fault_comes_when_a_topic_was_created_and_records_flow() -> None:
    timed = healthy(gap_ms=0, values=20)
    assert is_steady(lines(*timed))
    assert not is_steady(lines(*[each for each in timed if not isinstance(each[1], Admin)]))
    assert not is_steady(lines(*[each for each in timed if each[1] != Read(7, 7)]))


# ------------------------------------------------------------------ lines


def test_a_line_is_an_event() -> None:
    assert parse('{"event": "admin", "ok": true, "error": null, "took_ms": 12}') == Admin(ok=True, took_ms=12)
    assert parse('{"event": "ready", "client": "a", "version": "1", "without": ["consumer"]}') == Ready(
        "a", "1", ("consumer",)
    )


@pytest.mark.parametrize("text", ["Traceback", '{"event": "sned", "value": 1}', '{"event": "sent", "value": "1"}'])
def test_another_line_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(NotAnEvent, match="is no event of examples/clients/README") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


# ------------------------------------------------------------------ the page


def test_the_page_is_what_the_tool_makes_of_the_cards() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(load()), "python -m devtools.report_cards --page writes it"


def test_the_page_names_every_driver_and_scene() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in (*DRIVERS, *(scene.name for scene in SCENES)) if name not in text] == []


def test_the_readme_of_the_drivers_names_each() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in DRIVERS if f"| {name} |" not in text] == []


def test_the_page_tells_what_failed_and_what_was_not_run(tmp_path: Path) -> None:
    kept = Kept(not_run={"sarama": "there is no go on the PATH; install it"})
    kept.keep(OURS, SCENES[0].name, {"aiokafka": card(healthy(), log([*range(40), 7]))})
    store(kept, tmp_path / "cards.json")
    text = page(load(tmp_path / "cards.json"))
    assert f"- {SCENES[0].name}, {OURS}: 1 records doubled in the log: 7\n" in text
    assert "- sarama: there is no go on the PATH; install it\n" in text
    assert "0 of 1 runs of a client through a scene passed.\n" in text


def test_the_page_says_that_no_record_was_wrong_only_where_none_was() -> None:
    kept = Kept()
    kept.keep(OURS, SCENES[0].name, {"aiokafka": card(healthy())})
    assert "1 of 1 runs of a client through a scene passed. In none was a record lost" in page(kept)
    kept.keep(OURS, SCENES[1].name, {"aiokafka": card(healthy(), log([*range(39), 40]))})
    assert "In none was a record lost" not in page(kept)


def test_a_client_without_a_consumer_has_no_time_for_it_on_the_page() -> None:
    kept = Kept()
    timed = [each for each in healthy() if not isinstance(each[1], Read | Ready)]
    without = [(0, Ready("kafkajs", "1.0", without=("consumer",))), *timed]
    kept.keep(OURS, SCENES[0].name, {"kafkajs": card(without)})
    assert f"| {SCENES[0].name} | {OURS} | passed | 4,000 ms | 150 ms | – |" in page(kept)


# ------------------------------------------------------------------ drivers


def test_a_driver_whose_program_is_missing_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotBuilt, match="there is no go on the PATH"):
        go_driver("franz-go")(tmp_path)


def test_what_a_driver_prints_beside_events_is_trouble(tmp_path: Path) -> None:
    script = tmp_path / "driver.sh"
    script.write_text('echo "{\\"event\\": \\"end\\"}"; echo "$1 $2"; cat; exit 3\n')
    with Driver("made-up", ["sh", str(script)], "localhost:1", "orders", tmp_path / "log") as driver:
        driver.ask_to_end()
        driver.wait(30)
    assert [line.event for line in driver.lines] == [End()]
    assert [each for each in driver.trouble if "'localhost:1 orders' is no event" in each] != []
    assert "the driver ended with exit code 3" in driver.trouble


@pytest.mark.xdist_group("stock clients")
@at_night("tests/durability takes the same clients across the same fault")
def test_the_drivers_in_python_pass_when_the_leader_is_killed(tmp_path: Path) -> None:
    """Not the controller: which admin clients find the new one is a matter of the clients, see
    docs/reference/clients.md."""
    clients = ("kafka-python", "confluent-kafka", "aiokafka")
    [scene] = (scene for scene in SCENES if scene.play is leader_killed)
    cards = run_scene(scene, {client: DRIVERS[client](tmp_path) for client in clients}, tmp_path)
    assert {client: found.reasons for client, found in cards.items()} == dict.fromkeys(clients, ())


def test_topics_are_named_after_clients() -> None:
    assert topic_of("Apache Kafka's Java client") == "apache-kafka-s-java-client"


# ------------------------------------------------------------------ members of groups

SENT = frozenset((number % 2, number // 2) for number in range(40))
"""Partition and offset of what was acknowledged."""


def member(partition: int, *, first: int = 0, pause_ms: int = 0) -> list[tuple[int, Event]]:
    """A member that reads one partition from an offset on, one record every 100 ms, with a pause at the fault."""
    timed: list[tuple[int, Event]] = [(0, READY), (10, Assigned((partition,)))]
    for offset in range(first, 20):
        at_ms = 100 * offset + (pause_ms if 100 * offset >= FAULT_MS else 0)
        timed.append((at_ms, Read(offset, offset, partition)))
    return [*timed, (9_000, End())]


def test_a_group_passes_where_every_record_was_read_and_its_numbers_are_counted() -> None:
    again = [*member(1, pause_ms=700)[:-1], (4_000, Assigned((1,))), (4_100, Read(19, 19, 1)), (9_000, End())]
    found = judge_group("x", [lines(*member(0, pause_ms=500)), lines(*again)], [FAULT_MS], SENT)
    assert found.passed
    assert (found.rebalances, found.twice, found.lost, found.read_ms) == (1, 1, 0, 1_500)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([member(0), member(1, first=3)], "3 acknowledged records were read by no member"),
        ([member(0)[:9], member(1)[:9]], "no member read again within 60 s"),
        ([member(0), member(1)[1:]], "a member did not become ready"),
        ([member(0), member(1)[:-1]], "a member did not end"),
    ],
)
def test_a_group_fails_that_skips_stops_or_does_not_end(members: list[list[tuple[int, Event]]], reason: str) -> None:
    found = judge_group("x", [lines(*each) for each in members], [FAULT_MS], SENT)
    assert reason in found.reasons


def test_a_member_is_steady_when_it_has_read_since_its_last_assignment() -> None:
    timed = [*member(0)[:-1], (2100, Read(20, 20, 0))]
    assert is_steady_member(lines(*timed))
    assert not is_steady_member(lines(*timed, (2_200, Assigned((0,)))))
    assert not is_steady_member(lines((0, READY)))
