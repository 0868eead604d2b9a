from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedDocker:
    """A scripted docker command, the only program on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return ScriptedDocker(folder)
