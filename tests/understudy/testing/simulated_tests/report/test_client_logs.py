"""The event logs of a user's processes, and the page of a run."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.cli.main import main
from understudy.foundation.eventlog.records import (
    ClientLogged,
    ClientRequestBegan,
    ClientRequestEnded,
    Envelope,
    MemberTransition,
    ProcessExiting,
    ProcessStarted,
)
from understudy.history.narrator import describe
from understudy.history.reading.reader import read
from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.outcome import Outcome
from understudy.testing.simulated_tests.run import TestRun
from understudy.testing.simulated_tests.workers.forks import Child

Cluster = SimulatedTestCluster


async def bills(bootstrap: str) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        async for _ in consumer:
            await consumer.commit()


async def orders_are_billed(cluster: Cluster) -> None:
    await cluster.create_topic("orders", partitions=1)
    service = cluster.start(bills, cluster.bootstrap, name="billing")
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="shop") as producer:
        cluster.answer("Produce", "NOT_LEADER_OR_FOLLOWER")
        for number in range(3):
            await producer.send_and_wait("orders", b"%d" % number)
        await asyncio.sleep(5)
        service.restart(after_s=1)
        await asyncio.sleep(15)


def run(test: Callable[..., Any], page: Path | None) -> Outcome:
    """Run a test in a process of its own: what a killed client leaves is not collected in this one."""
    outcome = Child(lambda: TestRun(test, (), {}, SimulatedArguments(seconds=1.0), 1, page=page).run()).result()
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    outcome = run(orders_are_billed, folder)
    assert outcome.problems == []
    assert outcome.page == str(folder / "run.html")
    return folder


def records_of(folder: Path, node: str) -> list[Envelope]:
    reading = read([folder])
    assert reading.findings == ()
    return [record for record in reading.records if record.node == node]


def test_each_process_has_an_event_log_by_incarnation(folder: Path) -> None:
    starts = [record for record in records_of(folder, "billing") if isinstance(record.data, ProcessStarted)]
    assert [(record.incarnation, record.seq) for record in starts] == [(1, 1), (2, 1)]
    first, second = (record.data for record in starts)
    assert isinstance(first, ProcessStarted)
    assert isinstance(second, ProcessStarted)
    assert (first.role, first.after_seq) == ("client", 0)
    assert second.after_seq == sum(record.incarnation == 1 for record in records_of(folder, "billing"))
    ends = [record.incarnation for record in records_of(folder, "billing") if isinstance(record.data, ProcessExiting)]
    assert ends == [2], "the first one was killed"


def test_requests_of_clients_are_recorded_with_their_answers(folder: Path) -> None:
    ended = [record.data for record in records_of(folder, "test") if isinstance(record.data, ClientRequestEnded)]
    sent = [(each.error, each.attempt, each.records, each.offset) for each in ended if each.api == "Produce"]
    assert sent[0] == ("NOT_LEADER_OR_FOLLOWER", 1, 1, -1)
    assert ("NONE", 2, 1, 0) in sent
    assert {each.client_id for each in ended} == {"shop"}
    assert [each.is_sent_again for each in ended if each.api == "Produce"][:2] == [True, False]
    begun = [record.data for record in records_of(folder, "test") if isinstance(record.data, ClientRequestBegan)]
    assert [(each.api, each.attempt, each.records) for each in begun[:2]] == [("Produce", 1, 1), ("Produce", 2, 1)]
    of_billing = [record.data for record in records_of(folder, "billing")]
    apis = Counter(each.api for each in of_billing if isinstance(each, ClientRequestEnded))
    assert apis["Fetch"] > 0
    assert apis["OffsetCommit"] > 0
    read = [each.next_offset for each in of_billing if isinstance(each, ClientRequestEnded) and each.api == "Fetch"]
    assert read[-1] == 3
    states = [each for each in of_billing if isinstance(each, MemberTransition)]
    assert {(each.group, each.target, each.partitions) for each in states} == {("billing", "STABLE", (("orders", 0),))}


def test_log_lines_of_clients_are_recorded(folder: Path) -> None:
    logged = [record.data for record in records_of(folder, "test") if isinstance(record.data, ClientLogged)]
    assert any("Got error produce response" in each.text and each.level == "WARNING" for each in logged)


def test_log_lines_of_blocking_code_are_recorded() -> None:
    def log() -> None:
        logging.getLogger("billing").warning("in an executor")

    async def test(cluster: Cluster) -> None:
        await asyncio.to_thread(log)

    outcome = Child(lambda: TestRun(test, (), {}, SimulatedArguments(seconds=1.0), 1, with_story=True).run()).result()
    assert isinstance(outcome, Outcome)
    assert [line.split("  ")[-1] for line in outcome.log_lines] == ["in an executor"]


def test_records_of_clients_are_described_in_sentences(folder: Path) -> None:
    sentences = [describe(record) or "" for node in ("test", "billing") for record in records_of(folder, node)]
    assert any(text.startswith("sends 1 record to orders-0 at broker-") for text in sentences)
    assert any(text.endswith(", attempt 2: acknowledged at offset 0") for text in sentences)
    assert any(text.startswith("is given ") and "for group billing" in text for text in sentences)
    assert any(text.startswith("commits offset ") and text.endswith("for group billing: stored") for text in sentences)
    assert any(text.startswith("logs WARNING aiokafka.producer.sender: ") for text in sentences)


def test_page_has_the_records_of_clients(folder: Path) -> None:
    assert "<html" in (folder / "run.html").read_text(encoding="utf-8")


def test_check_takes_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder)]) == 0
    assert "no violations" in capsys.readouterr().out


def test_run_takes_the_same_callbacks_with_a_page(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await asyncio.sleep(1)

    assert run(test, None).callbacks == run(test, tmp_path).callbacks
