"""The run of a seed loads the simulator, and nothing that only other kinds of clusters need."""

from __future__ import annotations

import subprocess
import sys

RUN = "understudy.testing.simulated_tests.run"
UNNEEDED = (
    "yaml",
    "kazoo",
    "understudy.clusters.processes",
    "understudy.history.reading.reader",
    "understudy.trials.experiments.language.reading",
)


def test_a_worker_loads_no_yaml_and_no_cluster_of_processes() -> None:
    program = f"import sys\nimport {RUN}\nprint([name for name in {UNNEEDED!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found == "[]\n"
