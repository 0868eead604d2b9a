"""Finds the damage in event logs with SQL in Spark, which shares no code with `understudy.history.reading`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession

from tests.understudy.spark.oracle import line_queries
from tests.understudy.spark.oracle.small_logs import session_for_small_logs
from understudy.history.reading.findings import EMPTY_FILE, LogFinding
from understudy.history.reading.reader import find_files
from understudy.history.storage.paths import StoragePath


def findings_by_sql(spark: SparkSession, paths: Sequence[StoragePath]) -> tuple[tuple[LogFinding, ...], int]:
    """Return the findings in the logs at or below `paths`, sorted, and how many lines there are.

    Needs Spark 4.0, which has a function that validates UTF-8.
    """
    files, findings = find_files(paths)
    if not any(file.stat().st_size for file in files):
        return tuple(sorted([*findings, *_empty(files)])), 0
    views = _views(session_for_small_logs(spark), files)
    names = {str(file.absolute()): str(file) for file in files}
    lines = {names[_path(row["file"])]: row["lines"] for row in views["files"].collect()}
    empty = _empty([file for file in files if str(file) not in lines])
    flaws = _flaws(views["findings"], names) if views["flaws_by_file"].limit(1).collect() else []
    return tuple(sorted([*findings, *empty, *flaws])), sum(lines.values())


def _views(spark: SparkSession, files: Sequence[StoragePath]) -> dict[str, DataFrame]:
    """Create all views over the lines of `files`, and return them by name.

    Views that several others read become local checkpoints: they are computed once, when first needed, and are leaves
    to Spark's planner. Without them a plan would repeat everything below a view wherever it is read.
    """
    text = spark.read.text([str(file.absolute()) for file in files], lineSep="\n").selectExpr(
        "value",
        "_metadata.file_path AS file",
        "_metadata.file_block_start AS block",
        "monotonically_increasing_id() AS id",
    )
    # Data in one partition needs no exchange, which saves more than half of the stages.
    text.coalesce(1).createOrReplaceTempView("text")
    views: dict[str, DataFrame] = {}
    for name, sql in line_queries.VIEWS.items():
        view = spark.sql(sql)
        if name in line_queries.KEPT_VIEWS:
            # A checkpoint keeps the ids of its columns, which would clash with the ids of the views that it reads.
            view = view.localCheckpoint(eager=False).toDF(*view.columns)
        view.createOrReplaceTempView(name)
        views[name] = view
    return views


def _flaws(findings: DataFrame, names: Mapping[str, str]) -> list[LogFinding]:
    return [
        LogFinding(names[_path(row["file"])], row["line"], row["kind"], row["what"], row["times"])
        for row in findings.select("file", "line", "kind", "what", "times").collect()
    ]


def _empty(files: Sequence[StoragePath]) -> list[LogFinding]:
    return [LogFinding(str(file), 0, EMPTY_FILE, "") for file in files]


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path)
