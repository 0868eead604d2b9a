"""Keeps the ledger of seeds in a lake: a table of Parquet files with each seed that was run and its outcome.

`SeedHunt` keeps outcomes in it, and the event logs of seeds in the tables of the lake.

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
from understudy.history.lake.writer import SEEDS, check_is_lake
from understudy.trials.hunt.seed_tasks import SeedOutcome

SCHEMA = pa.schema([pa.field("software", pa.string()), *struct_type(SeedOutcome)])
"""Columns of the ledger: `software` is the version that ran the seed; the others are as in `SeedOutcome`."""


class SeedLedger:
    """The ledger of one lake.

    Args:
        lake: the lake; its folder is created if it is missing.
        software: the version of this program. Seeds that another version has run are run again.
    """

    def __init__(self, lake: Path, software: str) -> None:
        self._folder = lake / SEEDS / "ledger"
        self._software = software
        self._folder.mkdir(parents=True, exist_ok=True)
        self.logs = lake / SEEDS / "logs"
        """The folder for the event logs of seeds."""
        self.logs.mkdir(exist_ok=True)

    def outcomes(self, seconds: int) -> dict[int, SeedOutcome]:
        """Return the outcomes of the seeds that this version has run for this number of simulated seconds.

        Raises:
            OSError, pa.ArrowException: a file of the ledger cannot be read.
        """
        files = sorted(self._folder.glob("*.parquet"))
        wanted = {"software": self._software, "seconds": seconds}
        found: dict[int, SeedOutcome] = {}
        for file in files:
            rows = pq.read_table(file, schema=SCHEMA, filters=[(name, "==", value) for name, value in wanted.items()])
            for row in rows.to_pylist():
                del row["software"]
                row["acknowledged"] = row["acknowledged"] or 0  # older files lack this column
                found[row["seed"]] = msgspec.convert(row, SeedOutcome)
        return found

    def add(self, outcomes: Iterable[SeedOutcome]) -> None:
        """Add seeds in one step. Raises OSError if the ledger cannot be written."""
        rows = [{"software": self._software, **msgspec.structs.asdict(outcome)} for outcome in outcomes]
        name = uuid.uuid4().hex[:16]
        unfinished = self._folder / f".{name}"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), unfinished)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(self._folder / f"{name}.parquet")


class SeedHunt:
    """Keeps the outcomes of seeds in the ledger of a lake, and their records in its tables.

    Attributes:
        known: the seeds that are in the ledger already.
        logs: the folder in which workers leave event logs.
    """

    def __init__(self, lake: Path, ledger: SeedLedger, known: dict[int, SeedOutcome]) -> None:
        self._lake = lake
        self._ledger = ledger
        self.known = known
        self.logs = ledger.logs

    @classmethod
    def in_lake(cls, lake: Path, seconds: int) -> SeedHunt:
        """Open the ledger of a lake for seeds of this number of simulated seconds.

        Raises:
            LakeError: the folder is no lake.
            OSError: the lake cannot be read or written.
        """
        check_is_lake(lake)
        ledger = SeedLedger(lake, f"{software_version()} {software_commit()}".strip())
        for unfinished in ledger.logs.glob(".seed-*"):
            # A worker that was killed has left it.
            shutil.rmtree(unfinished, ignore_errors=True)
        return cls(lake, ledger, ledger.outcomes(seconds))

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
        self._ledger.add(outcomes)
        for outcome in outcomes:
            if not outcome.failed:
                shutil.rmtree(self.logs / f"seed-{outcome.seed}", ignore_errors=True)
