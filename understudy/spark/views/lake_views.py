"""Runs the views over a lake, and gives those that are tables of a replay as DataFrames."""

from __future__ import annotations

import inspect
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.lake import Lake
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut
from understudy.history.storage.paths import StoragePath
from understudy.spark.ddl import ddl
from understudy.spark.lake_tables import read_lake, read_records
from understudy.spark.sessions import check_usable
from understudy.spark.views.definitions import RECORDS, SMALL, TABLES, definition


def tables(spark: SparkSession, lake: str | StoragePath, *, incomplete: bool = False) -> LakeViews:
    """Compute the tables of a replay with SQL from the records of a lake; return them by name, with their SQL.

    The session may be of classic Spark or of Spark Connect. None of its settings is changed.

    Args:
        incomplete: as for `read_lake`.

    Raises:
        LakeError: the folder is no lake, or records of all its runs are missing.
        SparkFailed: the session was stopped.
    """
    check_usable(spark)
    opened = Lake(lake)
    opened.left_out("the tables", incomplete=incomplete)
    return LakeViews(spark, partial(_read, spark, opened, incomplete))


def _read(spark: SparkSession, lake: Lake, incomplete: bool, name: str) -> DataFrame:
    """Return a table of a lake, in the version that is open."""
    with warnings.catch_warnings():
        # `tables` has given the warning, once for all of them.
        warnings.simplefilter("ignore", IncompleteRunsLeftOut)
        if name in PAYLOAD_BY_TYPE and name not in lake.record_types:
            return spark.createDataFrame([], ddl(lake.schema(name)))
        if name == RECORDS:
            return read_records(spark, lake.path, incomplete=incomplete, version=lake.version)
        return read_lake(spark, lake.path, name, incomplete=incomplete, version=lake.version)


class LakeViews(Mapping[str, DataFrame]):
    """The tables of the runs of a lake by name, as in `TABLES`, each a DataFrame with `run` as its first column.

    `definition` has the SQL of each. What it reads is in braces: a table of the lake. `query` runs such a text, which
    may also have one of `TABLES` in braces:

        tables(spark, "lake").query("SELECT cause, count(*) FROM {failovers} GROUP BY cause").show()

    The tables of the lake are read in the version that is the newest when this is made. The views of `SMALL` are
    computed once, and kept in this process: they have a row for each incarnation, reign, run or time in which a node
    was down.

    Args:
        read: returns a table of the lake by name, or the records of all types as `RECORDS`.
    """

    def __init__(self, spark: SparkSession, read: Callable[[str], DataFrame]) -> None:
        self._spark = spark
        self._read = read
        self._frames: dict[str, DataFrame] = {}
        self._view_names: dict[str, str] = {}

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table. Raises KeyError if there is none of this name."""
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r} in SQL; there are {', '.join(TABLES)}")
        return self._view(name)

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def definition(self, name: str) -> str:
        """Return the SQL of a table as one statement, with all views that it reads in the order in which they read
        each other.

        Args:
            name: one of `TABLES`, a view of such a statement, or a record type, which is its table of the lake with
                `us`: microseconds after the run's first record.

        Raises:
            KeyError: there is no view of this name.
        """
        return definition(name)

    def query(self, text: str) -> DataFrame:
        """Run SQL over the tables whose names it has in braces.

        Args:
            text: in braces are names of `TABLES`; else of tables of the lake, as in `read_lake`; or `records`, which
                is the table of `read_records`. Other braces are written twice.

        Raises:
            LakeError: there is no table of this name.
        """
        names = {name for _, name, _, _ in Formatter().parse(text) if name}
        frames: dict[str, Any] = {name: self._frame(name) for name in sorted(names)}
        if "kwargs" in inspect.signature(self._spark.sql).parameters:
            return self._spark.sql(text, **frames)
        return self._spark.sql(text.format(**{name: self._view_name(name, frame) for name, frame in frames.items()}))

    def _view(self, name: str) -> DataFrame:
        return self.query(definition(name, given=SMALL))

    def _frame(self, name: str) -> DataFrame:
        if name not in self._frames:
            if name in SMALL:
                self._frames[name] = self._kept(self._view(name))
            else:
                self._frames[name] = self._view(name) if name in TABLES else self._read(name)
        return self._frames[name]

    def _kept(self, rows: DataFrame) -> DataFrame:
        """Return a view as a leaf of plans. Otherwise the plan of each view that reads it would repeat its plan."""
        return self._spark.createDataFrame(rows.collect(), rows.schema)

    def _view_name(self, name: str, frame: DataFrame) -> str:
        """Return the name of a temporary view: before 4.0, Spark Connect takes no DataFrames as arguments of SQL."""
        if name not in self._view_names:
            self._view_names[name] = f"understudy_{uuid.uuid4().hex}_{name}"
            frame.createTempView(self._view_names[name])
        return self._view_names[name]
