"""Describes what a writer has put on disk for a lake: files of tables, parts, and the runs in them."""

from __future__ import annotations

import msgspec

from understudy.history.reading.file_marks import FileMark


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of a table."""

    name: str
    """Its name in the table's folder."""
    bytes: int
    rows: int
    runs: tuple[str, str]
    """The smallest and the largest run id of its rows."""
    ingests: tuple[str, str]
    """The smallest and the largest value of the column `ingest`."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of some runs, on disk."""

    files: dict[str, tuple[TableFile, ...]]
    """The files of each table that has rows, by the table's folder, for example `tables/reigns`."""


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the lake."""

    ingest: str
    """The ingest that wrote its rows."""
    schema: str
    """The digest of all schemas with which it was written."""
    files: tuple[FileMark, ...]
    lines: int
    """Lines in its files, readable or not."""
    records: int
    """Rows in the tables of records."""
    missing: str
    """The first evidence that records are missing; empty if the run is complete."""

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.bytes for file in self.files)
