"""Names the folders of a lake, and recognises one, without the libraries that read it."""

from __future__ import annotations

from understudy.history.storage.paths import StoragePath

RUNS = "runs"
"""Folder of the table that says which runs count (`runs_table`)."""
RECORDS = "records"
"""Folder of the tables of record types."""
TABLES_FOLDER = "tables"
"""Folder of the tables of metrics."""
SEEDS = "seeds"
"""Folder of the ledger of seeds and their event logs (`understudy.spark.seed_ledger`)."""
LOG = "_delta_log"
"""Folder of the commits of a Delta table, in the table's folder."""

_OF_ANY_TABLE = (f"{0:020}.json", "_last_checkpoint")
"""Names in the log of which each table has one: its first commit, which is deleted only after a checkpoint."""
_FORMAT_1 = "manifest"
"""Folder that lakes of format 1 have, which were no Delta tables."""


def is_lake(folder: StoragePath) -> bool:
    """Return whether a folder is a lake, of any format; its other files do not matter."""
    return is_delta_table(folder / RUNS) or is_of_format_1(folder)


def is_delta_table(folder: StoragePath) -> bool:
    # Two names are looked for: a table that is written for days has thousands of commits.
    return any((folder / LOG / name).exists() for name in _OF_ANY_TABLE)


def is_of_format_1(folder: StoragePath) -> bool:
    return any((folder / _FORMAT_1).glob("*.json"))


def table_folders(lake: StoragePath) -> list[str]:
    """Return the folders of all tables but `runs`, for example `tables/reigns`.

    A folder whose log has no commit is no table: a process was killed, or lost the store, while it made one.
    """
    folders = (folder for kind in (RECORDS, TABLES_FOLDER) for folder in (lake / kind).glob("*"))
    return sorted(f"{folder.parent.name}/{folder.name}" for folder in folders if is_delta_table(folder))


def foreign_name(folder: StoragePath) -> str | None:
    """Return the name of something in a folder that no unfinished lake has; None if there is nothing else.

    Raises:
        OSError: the folder cannot be listed.
    """
    own = {RECORDS, TABLES_FOLDER, SEEDS, RUNS}
    names = {path.name for path in folder.iterdir()}
    if RUNS in names and any(path.name != LOG for path in (folder / RUNS).iterdir()):
        own.remove(RUNS)
    return min(names - own, default=None)
