"""`python -m understudy.brokers`: what it refuses before a broker is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from understudy.brokers.__main__ import check_is_experiment, main
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.reading import read_config
from understudy.brokers.exits import FAILED


def test_missing_server_properties(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere.properties")]) == FAILED
    assert "nowhere.properties" in capsys.readouterr().err


def test_a_protection_is_not_switched_off_outside_an_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_EXPERIMENT", raising=False)
    properties = tmp_path / "server.properties"
    properties.write_text("broker.id=1\nzookeeper.connect=z\nunderstudy.switches.off=kip-380,kip-101\n")
    assert main([str(properties)]) == FAILED
    refusal = capsys.readouterr().err
    assert "understudy.switches.off=kip-380,kip-101: protections can be switched off in experiments only" in refusal
    assert "understudy experiment run FILE --without NAME" in refusal


def test_a_start_warns_of_a_listener_that_other_machines_cannot_connect_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "broker.id=1\nzookeeper.connect=:::\nlisteners=PLAINTEXT://:9092\n"
        f"advertised.listeners=PLAINTEXT://kafka:9092\nlog.dirs={tmp_path}\n"
    )
    assert main([str(properties), "--log-format", "json"]) == FAILED
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["listeners"] for line in lines if "loopback" in line["event"]] == [["PLAINTEXT://kafka:9092"]]


def test_an_experiment_switches_a_protection_off() -> None:
    config = read_config({"zookeeper.connect": "z", "understudy.switches.off": "kip-380"})
    check_is_experiment(config, {"UNDERSTUDY_EXPERIMENT": "late-order"})
    with pytest.raises(ConfigError, match="kip-380"):
        check_is_experiment(config, {"UNDERSTUDY_EXPERIMENT": ""})
