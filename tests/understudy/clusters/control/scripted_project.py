"""A compose project without an engine: a folder with a script in place of the docker command.

The script answers `config` and `ps`, and writes every other command to a file. A command fails once with the text of
the file `refusal`, and always if its last word is in the file `failing`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from understudy.cli.main import main
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.reader import read

NETWORK = "mine_default"
DOCKER = """\
#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
if words[:2] == ["compose", "config"]:
    print((here / "config.json").read_text())
elif words[:2] == ["compose", "ps"]:
    for service, state in json.loads((here / "states.json").read_text()).items():
        print(json.dumps({{"Service": service, "State": state, "ID": "id-of-" + service}}))
elif words[:2] == ["ps", "--quiet"]:
    assert words[2:] == ["--filter", "label=com.docker.compose.project=mine"], words
    for service, state in json.loads((here / "states.json").read_text()).items():
        if state in ("running", "paused"):
            print("id-of-" + service)
else:
    logs = sorted((here / "events").rglob("*.jsonl"))
    recorded = sum(log.read_text().count("FaultInjected") for log in logs)
    with (here / "commands").open("a") as commands:
        commands.write(json.dumps([recorded, *words]) + "\\n")
    refusal = here / "refusal"
    if refusal.exists():
        message = refusal.read_text()
        refusal.unlink()
        sys.exit(message)
    if " ".join(words).endswith(tuple((here / "failing").read_text().split())):
        sys.exit("it cannot do that")
"""


class Project:
    """A folder with a scripted docker command and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        docker = folder / "docker"
        docker.write_text(DOCKER.format(python=sys.executable))
        docker.chmod(0o755)
        (folder / "events").mkdir()
        (folder / "failing").touch()
        self.ports: dict[str, list[dict[str, str]]] = {}
        self.states = {"broker-1": "running", "broker-2": "running", "zookeeper": "running"}
        self.write()

    def write(self, **states: str) -> None:
        self.states |= {name.replace("_", "-"): state for name, state in states.items()}
        (self.folder / "states.json").write_text(json.dumps(self.states))
        services = {f"broker-{number}": self._broker(number) for number in (1, 2)}
        zookeeper = {"ports": self.ports.get("zookeeper", [])}
        config = {
            "name": "mine",
            "services": {**services, "zookeeper": zookeeper},
            "networks": {"default": {"name": NETWORK}},
        }
        (self.folder / "config.json").write_text(json.dumps(config))

    def _broker(self, number: int) -> dict[str, Any]:
        return {
            "entrypoint": [
                "python",
                "-m",
                "understudy.brokers",
                "/dev/null",
                "--override",
                "understudy.run.id=evening",
            ],
            "command": ["--override", f"broker.id={number}", "--override", f"broker.rack={'ab'[number - 1]}"],
            "ports": self.ports.get(f"broker-{number}", []),
            "volumes": [{"type": "bind", "source": str(self.folder / "events"), "target": "/run/understudy"}],
        }

    def run(self, *words: str) -> int:
        verb, *rest = words
        return main([verb, str(self.folder), *rest, "--compose"])

    @property
    def commands(self) -> list[tuple[int, str]]:
        """Every command that changed something, and how many faults were on record when it began."""
        path = self.folder / "commands"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [(recorded, " ".join(words)) for recorded, *words in lines]

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        found = read([self.folder / "events"])
        assert {record.run for record in found.records} <= {"evening"}
        in_order = sorted(found.records, key=lambda record: (record.incarnation, record.seq))
        data = [record.data for record in in_order if isinstance(record.data, FaultInjected)]
        return [(fault.fault, fault.target, fault.role) for fault in data]
