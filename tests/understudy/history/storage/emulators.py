"""Fetches Azurite, the emulator of Azure, into the cache of the user, once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from devtools.judges.client_suites import cached, fetch, find_program
from understudy.clusters.processes.kafka_jars import NotFetched

_AZURITE: Final = "3.35.0"
_NODE: Final = "Node, 20 or newer"


def azurite() -> list[str]:
    """Return the command. Skips the test if Node is missing, or the package cannot be fetched."""

    def fill(folder: Path) -> None:
        (folder / "package.json").write_text('{"private": true}')
        fetch([find_program("npm", _NODE), "install", "--no-audit", "--no-fund", f"azurite@{_AZURITE}"], cwd=folder)

    try:
        node = find_program("node", _NODE)
        return [node, str(cached(f"azurite-{_AZURITE}", fill) / "node_modules" / ".bin" / "azurite-blob")]
    except NotFetched as why:
        if os.environ.get("REQUIRE_CLIENT_SUITES") == "1":
            pytest.fail(f"REQUIRE_CLIENT_SUITES=1, but {why}")
        pytest.skip(f"the emulator of Azure: {why}")
