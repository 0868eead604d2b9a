"""Software seen working: the judge finds lost records, the page shows the runs that were kept, and one program runs.

The fast tests judge arrivals that no program has made. `make software` runs every program.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from devtools.building import NotBuilt
from devtools.software.judge import Arrival, Seen, judge
from devtools.software.page import PAGE, Kept, load, page, store
from devtools.software.programs import NOT_SERVED, PROGRAMS, SOURCES
from devtools.software.run import Process, run_program
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from understudy.clusters.processes.kafka_jars import NotFetched

KILLED = [("leader of the first topic", 1_000), ("controller", 2_000)]
STREAMS = "Kafka Streams 3.9"


def arrivals(*values: int, every_ms: int = 100) -> list[Arrival]:
    return [Arrival(every_ms * number, value) for number, value in enumerate(values)]


# ------------------------------------------------------------------ the judge


def test_a_program_passes_that_copies_every_acknowledged_record() -> None:
    seen = judge("1.0", 32, range(30), arrivals(*range(32)), KILLED)
    assert seen == Seen("1.0", ("leader of the first topic", "controller"), 32, 30, 0, 0, 100)
    assert seen.passed


def test_records_that_are_copied_twice_are_counted_and_forgiven() -> None:
    seen = judge("1.0", 30, range(30), arrivals(*range(30), 3, 3, 4), KILLED)
    assert (seen.passed, seen.twice) == (True, 2)


def test_acknowledged_records_that_are_missing_are_lost() -> None:
    found = [each for each in arrivals(*range(40)) if each.value not in range(11, 18)]
    seen = judge("1.0", 40, range(40), found, KILLED)
    assert (seen.lost, seen.pause_ms) == (7, 800)
    assert seen.reasons == ("7 acknowledged records are missing: 11, 12, 13, 14, 15, …",)


def test_a_program_fails_that_does_not_go_on_or_has_trouble() -> None:
    stopped = judge("1.0", 20, range(20), arrivals(*range(20)), KILLED, ["it ended with exit code 1"])
    assert stopped.pause_ms is None
    assert stopped.reasons == ("it ended with exit code 1", "nothing arrived after the controller was killed")
    never = judge("1.0", 0, (), (), (), ["fewer than 40 records were copied within 1 s"])
    assert never.reasons == ("fewer than 40 records were copied within 1 s", "nothing was acknowledged")


# ------------------------------------------------------------------ the page


def test_the_page_is_the_one_that_was_kept() -> None:
    assert PAGE.read_text() == page(load())


def test_the_page_has_a_row_for_what_ran_and_the_reason_for_what_did_not(tmp_path: Path) -> None:
    kept = Kept(not_run={"kcat": "there is no kcat on the PATH; install Debian's package kcat\nmore"})
    kept.seen["Spark"] = Seen("4", ("controller",), 2_000, 1_999, 0, 3, 4_321)
    kept.seen["bytewax"] = Seen("1", ("controller",), 10, 10, 2, 0, None, ("2 acknowledged records are missing: 1, 2",))
    store(kept, tmp_path / "seen.json")
    text = page(load(tmp_path / "seen.json"))
    assert "1 of 2 programs passed. Of 2,009 acknowledged records 2 were lost.\n" in text
    assert "| Spark | 4 | passed | 2,000 | 1,999 | 0 | 3 | 4,321 ms |\n" in text
    assert "| bytewax | 1 | **failed** | 10 | 10 | 2 | 0 | – |\n" in text
    assert "\n- kafka-go: " not in text.partition("## What was not run")[0], "its note is shown if it ran"
    assert "- bytewax: 2 acknowledged records are missing: 1, 2\n" in text
    assert "- kcat: there is no kcat on the PATH; install Debian's package kcat.\n" in text
    assert "- rskafka: it was not run.\n" in text
    assert all(f"- {name}: {reason}.\n" in text for name, reason in NOT_SERVED.items())


def test_the_version_of_each_program_is_the_one_that_is_fetched() -> None:
    """Versions stand in this table, in go.mod and in Cargo.toml; a row on the page names the first."""
    for module in ("kafka-go", "confluent-kafka-go"):
        assert f" v{PROGRAMS[module].version}\n" in (SOURCES / module / "go.mod").read_text()
    assert f'"={PROGRAMS["rskafka"].version}"' in (SOURCES / "rskafka" / "Cargo.toml").read_text()
    watermill = PROGRAMS["Watermill"].version.rpartition(" ")[2]
    assert re.search(rf"watermill-kafka/v3 v{re.escape(watermill)}\n", (SOURCES / "watermill" / "go.mod").read_text())
    assert {name: seen.version for name, seen in load().seen.items()} == {
        name: PROGRAMS[name].version for name in load().seen
    }


# ------------------------------------------------------------------ programs


def test_a_program_whose_tool_is_missing_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotBuilt, match=r"there is no go .*; install it"):
        PROGRAMS["kafka-go"].build(tmp_path)
    with pytest.raises(NotBuilt, match="there is no kcat on the PATH; install Debian's package kcat"):
        PROGRAMS["kcat"].build(tmp_path)


def test_every_process_of_a_program_is_ended(tmp_path: Path) -> None:
    script = "import subprocess; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True); child.wait()"
    log = tmp_path / "log"
    with Process([sys.executable, "-c", script], log) as process:
        while not log.read_text().strip():
            assert process.exit_code is None
    assert process.exit_code is not None
    # A signal that has been sent is delivered a moment later.
    deadline = time.monotonic() + 30
    while has_process(int(log.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_process(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.interop
@pytest.mark.timeout(TIMEOUT_S)
def test_kafka_streams_loses_nothing_when_leaders_coordinator_and_controller_are_killed(tmp_path: Path) -> None:
    """Only a program with state sees all at once: a group, a repartition topic and a changelog, in one run."""
    program = PROGRAMS[STREAMS]
    build, run = tmp_path / "build", tmp_path / "run"
    build.mkdir()
    run.mkdir()
    try:
        start = program.build(build)
    except NotBuilt as why:
        skip_or_fail(NotFetched(str(why)))
    seen = run_program(program, start, run)
    assert seen.reasons == ()
    assert seen.killed[-1] == "group coordinator"
