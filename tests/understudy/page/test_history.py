"""`History` of the page's scripts, in a browser: any state is the one that folding from the beginning gives."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page

from tests.foundation.eventlog.stories import RandomRun
from tests.understudy.page.folding.fold import EMPTY, fold
from tests.understudy.page.folding.fold_document import canonical, document
from tests.understudy.page.scripts import load, page_text
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import micros
from understudy.history.reading.reader import read_lines
from understudy.page.recorded.chunks import as_array

_STATES = """
([run, texts, snapshotEvery, places]) => {
  const made = new History({ run, snapshotEvery });
  for (const text of texts) made.append(text);
  const held = places.map((place) => made.stateAt(place));
  return { length: made.length, states: held.map((state) => canonical(documentOf(state))) };
}
"""


@pytest.fixture
def scripts(page: Page) -> Page:
    load(page)
    return page


def random_records(seed: int, number: int) -> tuple[Envelope, ...]:
    return read_lines(RandomRun(seed, records=number).logs.lines).records


def documents(records: tuple[Envelope, ...]) -> list[str]:
    """The document before the first record, and after each."""
    picture, found = EMPTY, [canonical(document(EMPTY) | {"run": records[0].run})]
    for record in records:
        picture = fold(picture, record)
        found.append(canonical(document(picture)))
    return found


def pieces(records: tuple[Envelope, ...], sizes: list[int]) -> list[str]:
    """The records as texts of these numbers of records, over and over; of every second text each record is a line."""
    texts: list[str] = []
    first = 0
    while first < len(records):
        size = sizes[len(texts) % len(sizes)]
        text = page_text(records[first : first + size])
        texts.append(in_lines(text) if len(texts) % 2 else text)
        first += size
    return texts


def in_lines(text: str) -> str:
    """The array as chunks have it."""
    return as_array(msgspec.json.encode(record) for record in msgspec.json.decode(text)).decode()


@pytest.mark.parametrize(
    ("snapshot_every", "sizes"),
    [(50, [50]), (50, [1]), (37, [23, 5, 0, 200]), (5000, [400]), (1, [7])],
    ids=["a snapshot for each text", "one by one", "several texts", "one text", "a snapshot for each record"],
)
def test_any_state_in_any_order(scripts: Page, snapshot_every: int, sizes: list[int]) -> None:
    records = random_records(snapshot_every, 400)
    draw = random.Random(snapshot_every)
    places = [draw.randint(0, 400) for _ in range(150)] + list(range(190, 215)) + [0, 400, 399, 400]
    found = scripts.evaluate(_STATES, [records[0].run, pieces(records, sizes), snapshot_every, places])
    expected = documents(records)
    assert found["length"] == 400
    wrong = [place for place, state in zip(places, found["states"], strict=True) if state != expected[place]]
    assert wrong == [], "also of states that were handed out before others were asked for"


def test_states_handed_out_do_not_change_while_records_come(scripts: Page) -> None:
    records = random_records(3, 300)
    found = scripts.evaluate(
        """
        ([run, texts]) => {
          const made = new History({ run, snapshotEvery: 40 });
          const held = [];
          for (const text of texts) {
            held.push([made.length, made.stateAt(made.length)], [made.length >> 1, made.stateAt(made.length >> 1)]);
            made.append(text);
          }
          return held.map(([place, state]) => [place, canonical(documentOf(state))]);
        }
        """,
        [records[0].run, pieces(records, [9, 1, 30])],
    )
    expected = documents(records)
    assert len(found) > 40
    assert [place for place, state in found if state != expected[place]] == []


def test_of_records_times_and_types(scripts: Page) -> None:
    records = random_records(4, 120)
    found: dict[str, Any] = scripts.evaluate(
        """
        ([texts]) => {
          const observed = [];
          const made = new History({ snapshotEvery: 10, observe: (record, n) => observed.push([n, record[3]]) });
          for (const text of texts) made.append(text);
          const numbers = Array.from({ length: made.length }, (_, n) => n);
          return {
            observed,
            times: numbers.map((n) => made.timeAt(n)),
            types: numbers.map((n) => made.typeAt(n)),
            records: numbers.map((n) => made.recordAt(n).slice(0, 5)).reverse(),
            beyond: [-1, made.length].map((n) => [made.recordAt(n) ?? null, made.typeAt(n) ?? null]),
            indexes: numbers.map((n) => made.indexAt(made.timeAt(n))),
            before: made.indexAt(made.timeAt(0) - 1),
            after: made.indexAt(Infinity),
          };
        }
        """,
        [pieces(records, [7])],
    )
    times = [micros(record.mono_ms) for record in records]
    assert found["times"] == times
    assert found["types"] == [record.type for record in records]
    assert found["records"] == [
        [micros(record.mono_ms), record.node, record.incarnation, record.seq, record.type]
        for record in reversed(records)
    ]
    assert found["observed"] == [[number, record.seq] for number, record in enumerate(records)]
    assert found["beyond"] == [[None, None], [None, None]]
    assert found["indexes"] == [sum(other <= us for other in times) for us in times]
    assert (found["before"], found["after"]) == (0, 120)


def test_where_the_clock_goes_back_a_moment_is_before_the_first_later_record(scripts: Page) -> None:
    found = scripts.evaluate(
        """
        () => {
          const made = new History({ snapshotEvery: 2 });
          const data = { step: "s", note: "" };
          const record = (us, n) => [us, "broker-1", 1, n, "StepReached", null, 0, 0, data, null, null];
          made.append(JSON.stringify([10, 30, 20, 40, 35].map(record)));
          return [9, 10, 20, 30, 35, 40].map((us) => made.indexAt(us));
        }
        """
    )
    assert found == [0, 1, 1, 3, 3, 5]


def test_an_empty_history_has_the_empty_state(scripts: Page) -> None:
    found = scripts.evaluate(
        """
        () => {
          const made = new History();
          made.append("[]");
          const state = canonical(documentOf(made.stateAt(5)));
          return [made.length, made.indexAt(1e9), state, made.recordAt(0) ?? null, Number.isNaN(made.timeAt(0))];
        }
        """
    )
    assert found == [0, 0, canonical(document(EMPTY)), None, True]


def test_writing_to_a_large_topic_leaves_its_copy_as_it_was(scripts: Page) -> None:
    found = scripts.evaluate(
        """
        () => {
          const written = (epoch, partitions) => [
            epoch, "broker-1", 1, epoch, "LeadershipWritten", null, 0, 0,
            { why: "", partitions: partitions.map((p) => ["t", p, 1, epoch, [1], epoch, 1, 0]) }, null, null,
          ];
          const state = emptyState();
          fold(state, written(1, Array.from({ length: 100_000 }, (_, p) => p)));
          const before = snapshot(state);
          fold(state, written(2, [0, 255, 256, 99_999]));
          const epochs = (from) => [...entries(get(from.partitions, "t"))].map(([, leadership]) => leadership[3]);
          const sum = (from) => epochs(from).reduce((a, b) => a + b, 0);
          return [sum(before), sum(state), get(before.partitions, "t").size, get(get(state.partitions, "t"), "256")[3]];
        }
        """
    )
    assert found == [100_000, 100_004, 100_000, 2]
