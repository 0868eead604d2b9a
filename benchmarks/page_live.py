"""Measures the page of a running cluster: how soon it shows a record, and what its server takes while nothing happens.

Records are steps of the testbed and whatever the brokers write meanwhile. The delay of one goes from its clock, read
just before it is written, to the frame after the one in which the page counts it: then that one is on the screen.
"""

from __future__ import annotations

import gzip
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

from playwright.sync_api import Browser

from benchmarks.rows import Row
from benchmarks.watched import Watched, opened, watched
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.history.metrics.metrics import nearest_rank

STEPS: Final = 300
STEP_EVERY_S: Final = 0.083
GOAL_DELAY_MS: Final = 250.0
SETTLE_S: Final = 5.0
AT_REST_S: Final = 20.0
GOAL_CORE: Final = 0.03
GOAL_MB: Final = 60.0

_OBSERVE: Final = """
() => {
  window.seen = [];
  const position = document.getElementById("position");
  new MutationObserver(() => {
    const shown = Number(position.textContent.split(" ")[1].replaceAll(",", ""));
    requestAnimationFrame(() => window.seen.push([shown, Date.now()]));
  }).observe(position, { childList: true, characterData: true, subtree: true });
}
"""


def live(browser: Browser) -> Iterator[Row]:
    """Three brokers: the server of their page at rest, then the delays of records."""
    with (
        LocalCluster(brokers=3) as cluster,
        watched(cluster.directory) as served,
        opened(browser, served.address) as page,
    ):
        time.sleep(SETTLE_S)
        before = served.processor_seconds()
        time.sleep(AT_REST_S)
        share = (served.processor_seconds() - before) / AT_REST_S
        yield Row("page server, cluster at rest, one page open: share of a core", share, GOAL_CORE, 1.0)
        yield Row("  its memory, MB", served.megabytes(), GOAL_MB, 1.0)
        page.evaluate(_OBSERVE)
        began_ms = time.monotonic() * 1000
        for number in range(STEPS):
            cluster.record_step("benchmark", str(number))
            time.sleep(STEP_EVERY_S)
        time.sleep(SETTLE_S)
        delays = _delays(served, page.evaluate("() => window.seen"), began_ms)
    p50, p95 = (nearest_rank(delays, percent) or 0 for percent in (50, 95))
    yield Row(f"event to screen, p95 of {len(delays)} records, ms", p95 / 1000, GOAL_DELAY_MS, 1.0)
    yield Row("  p50, ms", p50 / 1000, None, None)


def _delays(served: Watched, seen: list[tuple[int, float]], began_ms: float) -> list[int]:
    """How long each record took, in microseconds, sorted.

    Args:
        seen: how many records the page had, and the wall clock in milliseconds, of each change.
        began_ms: the monotonic clock; records before it are left out.
    """
    wall_ms = time.time() * 1000 - time.monotonic() * 1000
    delays = []
    changes = iter(seen)
    shown, at_ms = next(changes)
    for number, record in enumerate(_records(served), 1):
        while shown < number and (change := next(changes, None)) is not None:
            shown, at_ms = change
        written_ms = record[0] / 1000
        if written_ms >= began_ms and shown >= number:
            delays.append(round((at_ms - wall_ms - written_ms) * 1000))
    return sorted(delays)


def _records(served: Watched) -> Iterator[list[Any]]:
    """All records in the order of the page."""
    address = served.address.partition("#")[0]
    with urllib.request.urlopen(f"{address}run.json") as answer:
        chunks = json.load(answer)["chunks"]
    for number in range(chunks):
        with urllib.request.urlopen(f"{address}chunks/{number}") as answer:
            yield from json.loads(gzip.decompress(answer.read()))
