"""Keeps the ledger of seeds in a lake: a table of Parquet files with each seed that was run and its outcome.

A hunt over many seeds adds a file after each round of tasks. So an interrupted hunt continues after the seeds in the
ledger, and an analyst reads the ledger as any other table: `spark.read.parquet("LAKE/seeds/ledger")`.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.clusters.software import software_commit, software_version
from understudy.history.lake.columns import struct_type
from understudy.history.lake.ingest import find_logs, ingest
from understudy.history.lake.layout import SEEDS
from understudy.history.lake.writer import check_is_lake
from understudy.trials.hunt.seed_tasks import SeedOutcome

SCHEMA = pa.schema([pa.field("software", pa.string()), *struct_type(SeedOutcome)])
"""Columns of the ledger: `software` is the version that ran the seed; the others are as in `SeedOutcome`."""


class SeedHunt:
    """Keeps the outcomes of seeds in the ledger of a lake, and their records in its tables.

    Seeds that another version of this program has run are run again.

    Args:
        lake: the lake; its folder is created if it is missing.
        seconds: the number of simulated seconds of each seed.

    Attributes:
        known: the outcomes of seeds that are in the ledger already.
        logs: the folder in which workers leave event logs.

    Raises:
        LakeError: the folder is no lake.
        OSError: the lake cannot be read or written.
        pa.ArrowException: a file of the ledger cannot be read.
    """

    def __init__(self, lake: Path, seconds: int) -> None:
        check_is_lake(lake)
        self._lake = lake
        self._ledger = lake / SEEDS / "ledger"
        self._ledger.mkdir(parents=True, exist_ok=True)
        self.logs = lake / SEEDS / "logs"
        self.logs.mkdir(exist_ok=True)
        for unfinished in self.logs.glob(".seed-*"):
            # A worker that was killed has left it.
            shutil.rmtree(unfinished, ignore_errors=True)
        self._software = f"{software_version()} {software_commit()}".strip()
        self.known = self._outcomes(seconds)

    def keep(self, outcomes: Sequence[SeedOutcome]) -> None:
        """Bring the event logs that workers have left into the lake, then the outcomes into the ledger.

        In this order a seed in the ledger has its records in the lake. The logs of seeds that did not fail are deleted.

        Raises:
            LakeError, OSError: the lake cannot be written.
        """
        left = [self.logs / f"seed-{outcome.seed}" for outcome in outcomes]
        left = [folder for folder in left if folder.is_dir()]
        if left:
            ingest(find_logs(left), self._lake)
        self._add(outcomes)
        for outcome in outcomes:
            if not outcome.failed:
                shutil.rmtree(self.logs / f"seed-{outcome.seed}", ignore_errors=True)

    def _outcomes(self, seconds: int) -> dict[int, SeedOutcome]:
        """Return the outcomes of the seeds that this version has run for this number of simulated seconds."""
        wanted = {"software": self._software, "seconds": seconds}
        found: dict[int, SeedOutcome] = {}
        for file in sorted(self._ledger.glob("*.parquet")):
            rows = pq.read_table(file, schema=SCHEMA, filters=[(name, "==", value) for name, value in wanted.items()])
            for row in rows.to_pylist():
                del row["software"]
                row["acknowledged"] = row["acknowledged"] or 0  # older files lack this column
                found[row["seed"]] = msgspec.convert(row, SeedOutcome)
        return found

    def _add(self, outcomes: Iterable[SeedOutcome]) -> None:
        """Add seeds to the ledger in one step."""
        rows = [{"software": self._software, **msgspec.structs.asdict(outcome)} for outcome in outcomes]
        name = uuid.uuid4().hex[:16]
        unfinished = self._ledger / f".{name}"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), unfinished)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(self._ledger / f"{name}.parquet")
