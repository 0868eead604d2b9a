"""source.js in a browser: the server and the one file give the page the same run, and a live run comes as it grows."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.understudy.page.served.test_live import line
from understudy.clusters.control.client import ControlClient
from understudy.clusters.control.control_file import CONTROL_FILE, ControlEntry, write_control_file
from understudy.clusters.processes.run_folder import this_process
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.page.export import page_of
from understudy.page.recorded import chunks as chunks_module
from understudy.page.recorded.runs import finished_run
from understudy.page.served import live as live_module
from understudy.page.served import server as server_module
from understudy.page.served.live import LiveRun
from understudy.page.served.server import PageServer, open_run
from understudy.page.static_files import FOLDER
from understudy.trials.seeds.seeds import run_seed

READ = """async () => {
  const { openSource } = await import("#source");
  const source = await openSource();
  const records = [];
  for await (const text of source.chunks()) {
    records.push(...JSON.parse(text));
  }
  return { run: source.run, records };
}"""
FOLLOW = """async () => {
  const { openSource } = await import("#source");
  const source = await openSource();
  window.found = { seqs: [], states: [], ended: false, source };
  for await (const text of source.chunks()) {
    window.found.seqs.push(...JSON.parse(text).map((record) => record[3]));
  }
  source.events(
    (text) => window.found.seqs.push(...JSON.parse(text).map((record) => record[3])),
    () => { window.found.ended = true; },
    (state) => window.found.states.push(state),
  );
}"""


@pytest.fixture(autouse=True)
def small_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A page of source.js alone, and chunks that are small."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "source.js").write_text((FOLDER / "source.js").read_text())
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>a page</title>'
        '<link rel="icon" href="data:,"><script type="importmap"></script>'
        '<script type="module">import "#source";</script></head><body></body></html>'
    )
    monkeypatch.setattr("understudy.page.static_files.FOLDER", folder)
    monkeypatch.setattr(chunks_module, "CHUNK_RECORDS", 100)


@contextlib.contextmanager
def live(folder: Path) -> Iterator[tuple[PageServer, JsonLinesFiles]]:
    """A live run of 250 records, and the log that further ones can be written to."""
    write_control_file(
        folder, ControlEntry(version=1, host="127.0.0.1", port=1, token="the cluster's", owner=this_process())
    )
    files = JsonLinesFiles(folder / "broker-1" / "events", "broker-1")
    for seq in range(1, 251):
        files.write(line(seq, float(seq)))
    with PageServer(LiveRun(folder, "r"), folder=folder) as server:
        yield server, files
    files.close()


def seqs(page: Page) -> list[int]:
    found: list[int] = page.evaluate("() => window.found.seqs")
    return found


def test_a_server_and_a_file_give_the_same_records(page: Page, tmp_path: Path) -> None:
    # In a thread of its own: Playwright's event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run_seed, 7, 6, events=tmp_path / "run").result()
    expected = finished_run([tmp_path / "run"])
    records = [json.loads(record) for record in _all(expected)]
    assert len(records) > 300
    with PageServer(finished_run([tmp_path / "run"])) as server:
        page.goto(server.url)
        served: dict[str, Any] = page.evaluate(READ)
    (tmp_path / "run.html").write_text(page_of([tmp_path / "run"]))
    page.goto(f"file://{tmp_path}/run.html")
    embedded: dict[str, Any] = page.evaluate(READ)
    assert served["records"] == embedded["records"] == records
    for name in ("run", "title", "records", "chunks", "first_us", "last_us", "brokers", "is_live", "can_command"):
        assert served["run"][name] == embedded["run"][name]


def test_a_large_run_that_has_ended_is_complete_though_it_is_served_while_it_is_read(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "MOST_BYTES", 500)
    monkeypatch.setattr(server_module, "LARGE_BYTES", 1_000)
    for node in ("broker-1", "broker-2"):
        files = JsonLinesFiles(tmp_path / node / "events", node)
        for seq in range(1, 501):
            files.write(line(seq, float(seq), node=node))
    run, folder, has_ended = open_run([tmp_path])
    with PageServer(run, folder=folder, has_ended=has_ended) as server:
        page.goto(server.url)
        served: dict[str, Any] = page.evaluate(READ)
    assert served["run"]["is_live"] is False
    assert [record[1:4] for record in served["records"]] == [
        [node, 1, seq] for seq in range(1, 501) for node in ("broker-1", "broker-2")
    ]


def _all(run: Any) -> list[bytes]:
    found: list[bytes] = []
    while records := run.chunks.since(len(found), 100):
        found += records
    return found


def test_a_live_run_is_followed_without_a_gap_until_it_ends(page: Page, tmp_path: Path) -> None:
    with live(tmp_path) as (server, files):
        page.goto(server.url)
        page.evaluate(FOLLOW)
        files.write(line(251, time.monotonic() * 1000))
        files.write(line(252, time.monotonic() * 1000))
        page.wait_for_function("() => window.found.seqs.includes(252)")
        assert seqs(page) == list(range(1, 253))
        assert page.evaluate("() => window.found.ended") is False
        server.finish()
        page.wait_for_function("() => window.found.ended")


def test_the_token_leaves_the_address_and_commands_carry_it(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts: list[tuple[str, object]] = []

    def post(client: ControlClient, path: str, body: object) -> dict[str, Any]:
        posts.append((path, body))
        return {"done": ["broker-1"]}

    monkeypatch.setattr(ControlClient, "post", post)
    send = "() => window.found.source.command('/verbs/kill', {target: '1'})"
    with live(tmp_path) as (server, _):
        page.goto(f"{server.url}&at=12")
        page.evaluate(FOLLOW)
        assert page.evaluate("() => location.hash") == "#at=12"
        assert page.evaluate(send) == {"done": ["broker-1"]}
        page.reload()
        page.evaluate(FOLLOW)
        assert page.evaluate("() => window.found.source.run.can_command") is True
        assert page.evaluate(send) == {"done": ["broker-1"]}
        assert posts == [("/verbs/kill", {"target": "1"})] * 2
        page.evaluate("() => sessionStorage.clear()")
        page.reload()
        page.evaluate(FOLLOW)
        assert page.evaluate("() => window.found.source.run.can_command") is False
        page.goto("about:blank")  # before the server ends, which the console would note as an error


def test_whether_commands_are_taken_is_looked_at_again(page: Page, tmp_path: Path) -> None:
    """While an experiment acts on a cluster it has no control port; the page is open before and after."""
    with live(tmp_path) as (server, _):
        entry = (tmp_path / CONTROL_FILE).read_bytes()
        page.goto(server.url)
        page.evaluate(FOLLOW)
        for has_port in (False, True):
            if has_port:
                (tmp_path / CONTROL_FILE).write_bytes(entry)
            else:
                (tmp_path / CONTROL_FILE).unlink()
            page.evaluate("() => window.found.source.refresh()")
            assert page.evaluate("() => window.found.source.run.can_command") is has_port
        page.goto("about:blank")  # before the server ends, which the console would note as an error


def test_a_lost_connection_goes_on_where_it_was(browser: Browser, tmp_path: Path) -> None:
    """The server ends and is started again at its address. The console has errors meanwhile, as it should."""
    context = browser.new_context()
    tab = context.new_page()
    with live(tmp_path) as (server, _):
        tab.goto(server.url)
        tab.evaluate(FOLLOW)
        tab.wait_for_function("() => window.found.states.includes('open')")
        host, _, port = server.address.rpartition(":")
    tab.wait_for_function("() => window.found.states.includes('lost')")
    assert tab.evaluate("() => window.found.ended") is False
    JsonLinesFiles(tmp_path / "broker-2" / "events", "broker-2").write(
        line(251, time.monotonic() * 1000, node="broker-2")
    )
    with PageServer(LiveRun(tmp_path, "r"), (host, int(port)), folder=tmp_path):
        tab.wait_for_function("() => window.found.seqs.includes(251)")
    assert seqs(tab) == list(range(1, 252))
    context.close()
