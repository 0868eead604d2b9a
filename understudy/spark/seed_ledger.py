"""Keeps the ledger of seeds in a lake: a Delta table with a row for each seed that was run, with its outcome.

A hunt over many seeds adds rows after each round of tasks. So an interrupted hunt continues after the seeds in the
ledger, and an analyst reads `LAKE/seeds/ledger` as any other Delta table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from understudy.clusters.software import software_commit, software_version
from understudy.history.lake import delta
from understudy.history.lake.columns import struct_type
from understudy.history.lake.ingest import find_logs, ingest
from understudy.history.lake.layout import SEEDS, is_delta_table
from understudy.history.lake.writer import check_is_lake
from understudy.history.storage.paths import StoragePath, parquet_file, results_of
from understudy.trials.hunt.seed_tasks import SeedOutcome

SCHEMA = pa.schema([pa.field("software", pa.string()), *struct_type(SeedOutcome)])
"""Columns of the ledger: `software` is the version that ran the seed; the others are as in `SeedOutcome`."""


class SeedHunt:
    """Keeps the outcomes of seeds in the ledger of a lake, and their records in its tables.

    Seeds that another version of this program has run are run again. Several hunts may use a lake at the same time.

    Args:
        lake: the lake; its folder is created if it is missing.
        seconds: the number of simulated seconds of each seed.

    Attributes:
        known: the outcomes of seeds that are in the ledger already.
        logs: the folder in which workers leave event logs.

    Raises:
        LakeError: the folder is no lake, or the ledger cannot be read.
        OSError: the lake cannot be read or written.
    """

    def __init__(self, lake: StoragePath, seconds: int) -> None:
        check_is_lake(lake)
        self._lake = lake
        self._ledger = lake / SEEDS / "ledger"
        self.logs = lake / SEEDS / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        if isinstance(self.logs, Path):
            for unfinished in self.logs.glob(".seed-*"):
                # A worker that was killed has left it.
                shutil.rmtree(unfinished, ignore_errors=True)
        self._software = f"{software_version()} {software_commit()}".strip()
        delta.repeated(self._ledger, partial(_prepare, self._ledger))
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
        failed = {f"seed-{outcome.seed}" for outcome in outcomes if outcome.failed}
        for folder in left:
            if folder.name not in failed:
                _remove(folder)

    def _outcomes(self, seconds: int) -> dict[int, SeedOutcome]:
        """Return the outcomes of the seeds that this version has run for this number of simulated seconds."""
        files = [self._ledger / file.name for file in delta.files_of(delta.open_table(self._ledger))]
        wanted = (pc.field("software") == self._software) & (pc.field("seconds") == seconds)
        found: dict[int, SeedOutcome] = {}
        for rows in results_of(_read, files, is_stored=not isinstance(self._lake, Path)):
            for row in rows.filter(wanted).drop_columns("software").to_pylist():
                found[row["seed"]] = msgspec.convert(row, SeedOutcome)
        return found

    def _add(self, outcomes: Iterable[SeedOutcome]) -> None:
        """Add seeds to the ledger in one step."""
        rows = [{"software": self._software, **msgspec.structs.asdict(outcome)} for outcome in outcomes]
        found = pa.Table.from_pylist(rows, schema=SCHEMA)
        delta.repeated(self._ledger, lambda: delta.append(delta.open_table(self._ledger), found))


def _prepare(ledger: StoragePath) -> None:
    """Make the table if there is none. Earlier ledgers were folders of Parquet files, which become the table's.

    Raises:
        Changed: another process has made it meanwhile.
        LakeError: it cannot be written.
    """
    if not is_delta_table(ledger):
        if any(ledger.glob("*.parquet")):
            delta.adopt_files(ledger)
        else:
            delta.create_table(ledger, SCHEMA, [])
    delta.fit_schema(delta.open_table(ledger), SCHEMA)


def _read(path: StoragePath) -> pa.Table:
    with parquet_file(path) as file:
        rows = file.read()
    if "acknowledged" not in rows.column_names:  # files of earlier versions lack this column
        rows = rows.append_column("acknowledged", pa.array([0] * rows.num_rows, pa.int64()))
    return rows.select(SCHEMA.names)


def _remove(folder: StoragePath) -> None:
    """Delete the event logs of a seed."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.remove_folder()
