"""Apache Kafka, recorded again, does what its recordings in `tests/golden` hold.

`--record-golden` repeats and writes every recording that was made here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.compare import compare
from tests.golden.kafka_cluster import KafkaProcessCluster
from tests.golden.recording import FOLDER, as_text, load
from tests.golden.scenarios import RECORDED_WITH_TOOLS, SCENARIOS, brokers_and_settings, run_scenario
from tests.shares import SHARES, share_of
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.kafka_jars import VERSION

RECORDED_AGAIN = ("isr", "create-topic", "broker-killed", "pauses")
"""Enough to check the recorder; all but the last were recorded with Apache's tools."""


def test_the_share_of_nightly_runs_has_every_recording() -> None:
    assert SHARES["recordings"].whole == len(RECORDED_AGAIN)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" not in metafunc.fixturenames:
        return
    every = [scenario for scenario in SCENARIOS if scenario not in RECORDED_WITH_TOOLS]
    metafunc.parametrize(
        "scenario", every if metafunc.config.getoption("--record-golden") else RECORDED_AGAIN[: share_of("recordings")]
    )


@pytest.mark.spec("IO-17")
def test_kafka_does_again_what_was_recorded(
    scenario: str, kafka: ApacheKafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with KafkaProcessCluster(tmp_path, *brokers_and_settings(scenario), kafka) as cluster:
        document = run_scenario(scenario, cluster)
    if request.config.getoption("--record-golden"):
        document |= {"kafka": VERSION, "brokers": len(SCENARIOS[scenario].brokers)}
        (FOLDER / f"{scenario}.json").write_text(as_text(document), encoding="utf-8")
    found = compare(load(scenario), document)
    assert not found, "\n".join(map(str, found))
