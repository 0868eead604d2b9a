"""Measures how fast the page opens a run and moves in it: Chromium, synthetic records, 1,000 partitions.

The reference is `JSON.parse` of the same text in the same browser: what the page adds is the fold. A move asks for the
state at a random record; its reference is parsing one chunk, which most moves have to.

UNDERSTUDY_BENCH_PAGE_RECORDS (100000,1000000) sets how many records the runs have.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

from benchmarks.rows import Row

RECORDS = tuple(map(int, os.environ.get("UNDERSTUDY_BENCH_PAGE_RECORDS", "100000,1000000").split(",")))
MOVES: Final = 200
MODULES: Final = ("fold", "history", "offsets", "state", "tables", "znodes")
_TIMEOUT_MS: Final = 600_000
_HTML: Final = """<!DOCTYPE html><meta charset="utf-8"><script type="importmap">{imports}</script>
<script type="module">
import {{ History }} from "#history";
Object.assign(window, {{ History, loaded: true }});
</script>"""

_MEASURE: Final = """
([total, moves]) => {
  const sequences = new Map();
  let count = 0;
  const record = (node, type, data) => {
    const seq = (sequences.get(node) ?? 0) + 1;
    sequences.set(node, seq);
    count += 1;
    return [1e6 + 137 * count, node, 1, seq, type, null, seq, 1, data, "what happens, in about as many words", null];
  };
  const state = (p, epoch) => [`topic-${p % 10}`, p, 1 + p % 3, epoch, [1, 2, 3], epoch, 1, 0];
  const next = () => {
    const p = (count * 7919) % 1000;
    const broker = 1 + p % 3;
    const [event_id, event] = [count, "AlterPartition"];
    switch (count % 6) {
      case 0: return record("broker-1", "EventQueued", { event_id, event });
      case 1: return record("broker-1", "EventStarted", { event_id: event_id - 1, event, queued_ms: 0.1 });
      case 2: return record("broker-1", "LeadershipWritten", { why: "offline", partitions: [state(p, count)] });
      case 3: return record("broker-1", "RequestSent", {
        to: broker, api: "UpdateMetadata", api_version: 7, client_id: "1", correlation_id: count,
        controller_epoch: 1, broker_epoch: broker, partitions: 1, event, attempt: 1,
      });
      case 4: return record(`broker-${broker}`, "MetadataUpdated", {
        controller_id: 1, request_controller_epoch: 1, request_broker_epoch: broker, live_brokers: [1, 2, 3],
        partitions: [state(p, count)],
      });
      default: return record(`broker-${broker}`, "RecordsAppended", {
        topic: `topic-${p % 10}`, topic_id: "id", partition: p, role: "leader", leader_epoch: 1,
        batches: [[count, count + 1, 1, 7, -1, -1, -1, -1]],
      });
    }
  };
  const texts = [];
  while (count < total) texts.push(JSON.stringify(Array.from({ length: Math.min(5000, total - count) }, next)));
  const timed = (act) => {
    const began = performance.now();
    act();
    return performance.now() - began;
  };
  const parse = timed(() => texts.forEach((text) => JSON.parse(text)));
  const made = new History();
  const open = timed(() => texts.forEach((text) => made.append(text)));
  let place = 1;
  const times = Array.from({ length: moves }, () => {
    place = (place * 48_271) % 2_147_483_647;
    return timed(() => made.stateAt(place % total));
  }).sort((a, b) => a - b);
  return { parse, open, chunks: texts.length, p95: times[Math.ceil(0.95 * moves) - 1] };
}
"""


def run() -> Iterator[Row]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("no Chromium is installed; Debian's package is chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for total in RECORDS:
            found = _measure(browser, total)
            yield Row(f"opening {total:,} records, ms", found["open"], found["parse"], None)
            chunk = found["parse"] / found["chunks"]
            yield Row(f"moving in {total:,} records, p95 of {MOVES}, ms", found["p95"], chunk, None)
        browser.close()


def _measure(browser: Browser, total: int) -> dict[str, Any]:
    page = browser.new_page()
    page.set_default_timeout(_TIMEOUT_MS)
    static = resources.files("understudy.page") / "static"
    imports = {
        f"#{name}": f"data:text/javascript;base64,{base64.b64encode((static / f'{name}.js').read_bytes()).decode()}"
        for name in MODULES
    }
    page.set_content(_HTML.format(imports=json.dumps({"imports": imports})))
    page.wait_for_function("window.loaded")
    found: dict[str, Any] = page.evaluate(_MEASURE, [total, MOVES])
    page.close()
    return found
