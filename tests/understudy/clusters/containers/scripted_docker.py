"""`ScriptedDocker`: a program in place of docker that keeps containers in a file and writes down its calls.

It has the commands that a cluster in containers uses, and prints docker's messages if something does not exist.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python} -IS
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
refusals = json.loads((here / "refusals.json").read_text())
for start, message in refusals.items():
    if " ".join(words).startswith(start):
        sys.exit(message)
path = here / "containers.json"
containers = json.loads(path.read_text())
if words[0] == "inspect" and "Labels" in words[2]:
    for each in words[3:]:
        print(each, each.removeprefix("id-of-"))
elif words[0] == "inspect":
    for each in words[3:]:
        if each not in containers:
            sys.exit("Error: No such object: " + each)
        print(each, *containers[each])
elif words[0] == "compose" and "ps" in words:
    for each in containers:
        print(json.dumps({{"Service": each.removeprefix("id-of-"), "State": containers[each][0], "ID": each}}))
elif words[0] == "compose" and "down" in words:
    containers = {{}}
elif words[:2] == ["container", "ls"]:
    print(*containers, sep="\\n")
elif words[:2] == ["container", "rm"]:
    containers = {{}}
elif words[0] in ("kill", "pause", "unpause", "start") and "--signal" not in words:
    done = {{"kill": ["exited", 137, 0], "pause": ["paused", 0, 0], "unpause": ["running", 0, 0]}}
    containers[words[1]] = done.get(words[0], ["running", 0, 0])
path.write_text(json.dumps(containers))
"""


class ScriptedDocker:
    """The program, in a folder that a test puts on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        docker = folder / "docker"
        docker.write_text(PROGRAM.format(python=sys.executable))
        docker.chmod(0o755)
        self.refuse()
        self.set()

    def set(self, **containers: list[Any]) -> None:
        """Replace the containers: by service, with `_` for `-`, their status, exit code and pid."""
        found = {f"id-of-{name.replace('_', '-')}": state for name, state in containers.items()}
        (self.folder / "containers.json").write_text(json.dumps(found))

    def refuse(self, **messages: str) -> None:
        """Let calls that start so, with `_` for a blank, fail with these messages."""
        found = {start.replace("_", " "): message for start, message in messages.items()}
        (self.folder / "refusals.json").write_text(json.dumps(found))

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def changes(self) -> list[str]:
        """The calls that change something."""
        reads = ("inspect", "container ls", "network ls", "volume ls")
        return [call for call in self.calls if not call.startswith(reads) and " ps " not in call]
