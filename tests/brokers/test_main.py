"""`python -m understudy.brokers`: what it refuses before a broker is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operators_log import operators_log
from understudy.brokers.__main__ import check_is_experiment, main, warn_of
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


def warnings_of(**properties: str) -> dict[str, dict[str, object]]:
    """The fields of the lines that a start with these properties logs, by the beginnings of their texts."""
    given = {
        "broker.id": "1",
        "zookeeper.connect": "z",
        **{key.replace("_", "."): properties[key] for key in properties},
    }
    with operators_log() as lines:
        warn_of(given, read_config(given))
    assert {line.level for line in lines} <= {"warning"}
    return {" ".join(line.text.split()[:2]): line.fields for line in lines}


def test_a_start_with_an_ordinary_configuration_warns_of_nothing() -> None:
    assert warnings_of(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://localhost:9092") == {}


def test_a_start_warns_of_a_listener_that_other_machines_cannot_connect_to() -> None:
    found = warnings_of(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://kafka:9092")
    assert found == {"listeners that": {"endpoints": ["PLAINTEXT://kafka:9092"]}}


def test_a_start_says_in_one_line_which_keys_protect_nothing() -> None:
    found = warnings_of(
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer", super_users="User:admin", brokerid="2"
    )
    assert found == {
        "these configurations": {"keys": ("brokerid",)},
        "nothing protects": {"keys": ("authorizer.class.name", "super.users")},
    }


def test_an_experiment_switches_a_protection_off() -> None:
    config = read_config({"zookeeper.connect": "z", "understudy.switches.off": "kip-380"})
    check_is_experiment(config, {"UNDERSTUDY_EXPERIMENT": "late-order"})
    with pytest.raises(ConfigError, match="kip-380"):
        check_is_experiment(config, {"UNDERSTUDY_EXPERIMENT": ""})
