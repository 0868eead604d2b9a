"""The trace of a run: a process for each node, slices for what took time, and arrows from sender to receiver."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.understudy.trials.experiments.simulated import run
from understudy.foundation.eventlog.records import ControllerElected, Envelope, EventEnded, RequestSent
from understudy.history.reading.reader import read
from understudy.trials.experiments.report.timeline import timeline
from understudy.trials.experiments.report.trace import trace_json
from understudy.trials.experiments.running import TRACE, write_trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    verdict = run("steps:\n  - {at: 1s, as: C, kill: controller}\n  - {at: 9s, start: C}\n", folder)
    write_trace(verdict, folder)
    return folder


@pytest.fixture(scope="module")
def events(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode((folder / TRACE).read_bytes())["traceEvents"]
    return found


def named(events: list[dict[str, Any]], kind: str) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event.get("tid", 0)): event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == kind
    }


def test_each_node_is_a_process_and_what_it_was_and_did_are_tracks(events: list[dict[str, Any]]) -> None:
    assert set(named(events, "process_name").values()) >= {"broker-1", "broker-2", "broker-3"}
    tracks = named(events, "thread_name")
    assert {"state", "controller", "events of the controller", "requests handled"} <= set(tracks.values())
    assert all((event["pid"], event["tid"]) in tracks for event in events if event["ph"] != "M")
    assert all(event["ts"] >= 0 and event.get("dur", 0) >= 0 for event in events if event["ph"] != "M")


def test_states_reigns_and_events_are_slices(folder: Path, events: list[dict[str, Any]]) -> None:
    records = read([folder]).records
    tracks = named(events, "thread_name")
    slices = Counter((tracks[event["pid"], event["tid"]], event["name"]) for event in events if event["ph"] == "X")
    assert slices["state", "down"] == 1
    reigns = {name for track, name in slices if track == "controller"}
    assert reigns >= {f"controller {each.data.epoch}" for each in records if isinstance(each.data, ControllerElected)}
    ended = Counter(each.data.event for each in records if isinstance(each.data, EventEnded))
    assert {name: count for (track, name), count in slices.items() if track == "events of the controller"} == ended


def test_an_arrow_leads_from_each_request_to_its_receipt(folder: Path, events: list[dict[str, Any]]) -> None:
    sent = sum(isinstance(each.data, RequestSent) for each in read([folder]).records)
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert sent - 5 <= len(begins) <= sent, "but for those to the broker that was down"
    assert all(begins[arrow]["ts"] <= ends[arrow]["ts"] for arrow in begins)
    assert len(begins) == sum(event["ph"] == "s" for event in events), "each arrow has a number of its own"


def test_missing_records_are_slices_with_their_evidence(folder: Path) -> None:
    records = [each for each in read([folder]).records if each.node != "broker-2"]
    by_node: dict[str, list[Envelope]] = {}
    for record in records:
        by_node.setdefault(record.node, []).append(record)
    events = msgspec.json.decode(trace_json(timeline(by_node), records))["traceEvents"]
    names, tracks = named(events, "process_name"), named(events, "thread_name")
    [gap] = [event for event in events if event["name"] == "records are missing"]
    assert names[gap["pid"], 0] == "broker-2"
    assert tracks[gap["pid"], gap["tid"]] == "missing records"
    assert gap["args"]["record"].startswith(("broker-", "simulator/"))
    lasts_ms = records[-1].mono_ms - records[0].mono_ms
    assert (gap["ts"], gap["dur"] / 1000) == (0, pytest.approx(lasts_ms))


def test_a_complete_run_has_no_track_of_missing_records(events: list[dict[str, Any]]) -> None:
    assert "missing records" not in named(events, "thread_name").values()
