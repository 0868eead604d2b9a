"""The fold of the page's scripts, in a browser, and the fold in Python have the same state after every record."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import checked_page
from tests.foundation.eventlog.stories import (
    ChannelsRun,
    RandomRun,
    controller_never_ready,
    killed_controller,
    silent_controllers,
)
from tests.shares import share_of
from tests.stories.test_stories import STORIES
from tests.understudy.page.folding.fold import EMPTY, fold, fold_all
from tests.understudy.page.folding.fold_document import canonical, document
from tests.understudy.page.hostile import ABOUT_PATHS, HostileRun
from tests.understudy.page.incomplete_runs import on_two_clocks, without_controller
from tests.understudy.page.scripts import load, page_text
from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read, read_lines
from understudy.trials.seeds import story
from understudy.trials.seeds.seeds import run_seed

T = TypeVar("T")

SAMPLES = Path(__file__).parents[2] / "samples" / "0.1.0"
RECORD_SAMPLES = Path(__file__).parents[2] / "foundation" / "eventlog" / "samples" / "version-1.jsonl"

_DIGESTS = """
([run, text]) => {
  const table = Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value >>> 0;
  });
  const digest = (text) => {
    let value = 0xffffffff;
    for (const byte of new TextEncoder().encode(text)) value = table[(value ^ byte) & 0xff] ^ (value >>> 8);
    return ~value >>> 0;
  };
  const state = emptyState(run);
  return JSON.parse(text).map((record) => {
    fold(state, record);
    return digest(canonical(documentOf(state)));
  });
}
"""

_DOCUMENT = """
([run, text]) => {
  const state = emptyState(run);
  for (const record of JSON.parse(text)) fold(state, record);
  return canonical(documentOf(state));
}
"""


@pytest.fixture(scope="module")
def scripts(browser: Browser) -> Iterator[Page]:
    """One page for all runs: each is folded into a state of its own."""
    with checked_page(browser) as page:
        load(page)
        yield page


def require_agreement(scripts: Page, records: Sequence[Envelope]) -> None:
    """Fold the same records twice; show the record after which they differ first, and both documents."""
    assert records
    run = records[0].run
    theirs = scripts.evaluate(_DIGESTS, [run, page_text(records)])
    assert len(theirs) == len(records)
    picture = EMPTY
    for number, (record, digest) in enumerate(zip(records, theirs, strict=True)):
        picture = fold(picture, record)
        ours = canonical(document(picture))
        if zlib.crc32(ours.encode()) != digest:
            javascript = scripts.evaluate(_DOCUMENT, [run, page_text(records[: number + 1])])
            assert msgspec.json.decode(javascript) == msgspec.json.decode(ours), f"after record {number}: {record}"
            assert javascript == ours, f"the texts differ after record {number}: {record}"


def in_a_thread(run: Callable[[], T]) -> T:
    """Run a simulation beside the event loop that Playwright has in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def records_of_story(path: Path) -> tuple[Envelope, ...]:
    player = story._Player()
    try:
        for block in story.parse(path.read_text(encoding="utf-8")):
            if block.commands:
                player.play(block.commands)
        return read_lines({"story.jsonl": player._cluster.log_lines}).records
    finally:
        player.close()


@pytest.mark.parametrize("logs", [killed_controller(), controller_never_ready(), silent_controllers()])
def test_of_runs_written_by_hand(scripts: Page, logs: Any) -> None:
    require_agreement(scripts, read_lines(logs.lines).records)


def test_of_a_run_without_its_second_controller(scripts: Page) -> None:
    require_agreement(scripts, read_lines(without_controller()).records)


def test_of_a_run_on_two_clocks(scripts: Page) -> None:
    records = read_lines(on_two_clocks()).records
    require_agreement(scripts, records)
    one_clock = read_lines(killed_controller().lines).records
    assert [(each.node, each.seq) for each in records] == [(each.node, each.seq) for each in one_clock]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_of_stories(scripts: Page, path: Path) -> None:
    records = in_a_thread(lambda: records_of_story(path))
    require_agreement(scripts, records)
    assert fold_all(records).controller is not None


@pytest.mark.parametrize("run", ["local-cluster", "simulated-cluster"])
def test_of_the_runs_of_a_released_version(scripts: Page, run: str) -> None:
    require_agreement(scripts, read([SAMPLES / run]).records)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_simulated_runs_with_faults(scripts: Page, seed: int, tmp_path: Path) -> None:
    in_a_thread(lambda: run_seed(seed, 15, events=tmp_path))
    records = read([tmp_path]).records
    require_agreement(scripts, records)
    picture = fold_all(records)
    assert picture.fences or picture.links or picture.last_fault, "a run without faults says little"


@pytest.mark.parametrize("seed", range(min(12, share_of("folds"))))
def test_of_random_runs(scripts: Page, seed: int) -> None:
    require_agreement(scripts, read_lines(RandomRun(seed, records=400).logs.lines).records)


@pytest.mark.parametrize("seed", range(6))
def test_of_requests_that_wait(scripts: Page, seed: int) -> None:
    require_agreement(scripts, read_lines(ChannelsRun(seed, records=400).logs.lines).records)


def test_of_a_sample_of_every_record_type_in_any_order(scripts: Page) -> None:
    samples = [decode_record(line) for line in RECORD_SAMPLES.read_bytes().splitlines()]
    shuffled = random.Random(1)
    records = [record for _ in range(20) for record in shuffled.sample(samples, len(samples))]
    require_agreement(scripts, records)


@pytest.mark.parametrize("seed", range(4))
def test_of_znodes_that_come_and_go(scripts: Page, seed: int) -> None:
    records = HostileRun(seed, records=400, kinds=ABOUT_PATHS).records
    require_agreement(scripts, records)
    zookeeper = fold_all(records).zookeeper
    assert zookeeper.others
    assert zookeeper.deleted


@pytest.mark.parametrize("seed", range(share_of("folds")))
def test_of_hostile_logs(scripts: Page, seed: int) -> None:
    require_agreement(scripts, HostileRun(seed, records=300).records)
