"""Runs the queries of `line_queries` and `queries` in Spark over event logs. The only module that imports pyspark.

All rows are collected as JSON in a single action, because each action of Spark takes at least a quarter of a second.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlparse

import msgspec
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from foundation.eventlog.metric_tables import SORTED_BY, TABLES, RunMetrics, Table
from foundation.eventlog.reader import EMPTY_FILE, LogFinding, find_files
from foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.java import JavaRuntime, choose_java
from understudy.replay.result import Replay
from understudy.spark import line_queries, queries
from understudy.spark.gateway import Gateway, gateway, jvm_flags
from understudy.spark.schema import data_columns, data_ddl

QUICK_BYTES = 16 * 1024 * 1024
"""Up to this size of the logs, some 50,000 records, a quick start saves more time than a fast engine."""

LOCAL_MASTER = "local[*]"

_COLUMNS = {name: tuple(info.name for info in msgspec.structs.fields(table)) for name, table in TABLES.items()}
_FLAWS = "flaws"
_FILES = "files"


Progress: TypeAlias = Callable[[str], None]


def _ignore(step: str) -> None:
    """Show no progress."""


class SparkFailed(Exception):
    """Spark raised an exception. The message says what it was doing, and has the first line of the exception."""


class TablesExist(Exception):
    """The output folder holds tables already. The message names the folder and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How to start Spark, and where it runs.

    Attributes:
        master: where Spark runs, as in the option --master of spark-submit.
        memory: the heap of the driver's Java, as in `-Xmx`.
        quick: whether the settings are those for small logs.
    """

    java: JavaRuntime
    master: str = LOCAL_MASTER
    memory: str = "1g"
    quick: bool = True

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


def replay(
    paths: Sequence[Path],
    *,
    output: Path | None = None,
    java: JavaRuntime | None = None,
    master: str = LOCAL_MASTER,
    memory: str | None = None,
    progress: Progress = _ignore,
) -> Replay:
    """Compute the metrics of all runs in the logs at or below `paths`, in a new Spark session fitted to their size.

    Args:
        output: a folder for the tables, as in `SparkReplay.replay`.
        java: the Java to use; by default `choose_java` looks for one.
        memory: the heap of the driver's Java, for example `4g`; by default 1g for small logs and 2g for large ones.
        progress: called with the name of each step before the step begins.

    Raises:
        JavaNotFound: there is no Java.
        GatewayFailed: Java did not start.
        SparkFailed: Spark does not run with `master`, or `output` cannot be written.
        TablesExist: `output` holds tables already.
    """
    files, _ = find_files(paths)
    quick = sum(file.stat().st_size for file in files) <= QUICK_BYTES
    settings = SparkSettings(
        java=java or choose_java(), master=master, memory=memory or ("1g" if quick else "2g"), quick=quick
    )
    with SparkReplay(settings, progress=progress) as spark:
        result = spark.replay(paths, output=output)
        progress("stopping Spark")
    return result


class SparkReplay:
    """Runs a Spark session while its block runs; `replay` may be called any number of times.

    Raises:
        GatewayFailed: Java did not start.
        SparkFailed: Spark does not run with the `master` of the settings.
    """

    def __init__(self, settings: SparkSettings, *, progress: Progress = _ignore) -> None:
        self._settings = settings
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self._spark: SparkSession | None = None

    def __enter__(self) -> SparkReplay:
        with contextlib.ExitStack() as stack:
            settings = self._settings
            flags = jvm_flags(settings.java, memory=settings.memory, quick=settings.quick)
            home = Path(pyspark.__file__).parent
            self._progress("starting Java for Spark")
            running = stack.enter_context(gateway(settings.java, home, flags, loopback=settings.is_local))
            self._progress("opening a Spark session")
            self._spark = stack.enter_context(_session(settings, running))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark = None
        self._stack.close()

    @property
    def engine(self) -> str:
        """The versions of Spark and Java, and the master."""
        version = "" if self._settings.java.version is None else f" {self._settings.java.version}"
        return f"Spark {pyspark.__version__} on Java{version}, {self._settings.master}"

    def replay(self, paths: Sequence[Path], *, output: Path | None = None) -> Replay:
        """Compute the metrics of all runs in the logs at or below `paths`.

        Args:
            output: a folder for the tables as Parquet. Each table is a folder in it, and its first column is `run`.

        Raises:
            SparkFailed: `output` cannot be written.
            TablesExist: `output` holds tables already.
        """
        assert self._spark is not None, "the session is not open"
        if output is not None:
            _check_output(output)
        files, findings = find_files(paths)
        if not any(file.stat().st_size for file in files):
            return Replay(runs=(), findings=tuple(sorted([*findings, *_empty(files)])), lines=0, engine=self.engine)
        self._progress(f"planning the tables of {len(files)} event log files")
        views = _views(self._spark, files, self._settings)
        if output is not None:
            self._progress(f"writing the tables to {output}")
            with _spark_errors(f"the tables cannot be written to {output}"):
                _write(views, output)
        self._progress("computing the tables")
        return _collect(views, files, findings, self.engine)


# ------------------------------------------------------------------ the session


@contextlib.contextmanager
def _session(settings: SparkSettings, running: Gateway) -> Iterator[SparkSession]:
    builder = SparkSession.builder.appName("understudy replay").master(settings.master)
    for name, value in _configuration(settings).items():
        builder = builder.config(name, value)
    variables = {"PYSPARK_GATEWAY_PORT": str(running.port), "PYSPARK_GATEWAY_SECRET": running.secret}
    spark: SparkSession | None = None
    try:
        with _environment(variables), _spark_errors(f"Spark does not run with master {settings.master}"):
            spark = builder.getOrCreate()
        yield spark
    finally:
        if spark is not None:
            spark.stop()
        connection, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        if connection is not None:
            connection.shutdown()


@contextlib.contextmanager
def _spark_errors(failure: str) -> Iterator[None]:
    """Raise exceptions of Spark as `SparkFailed`. Their text is in Java, so it is read before the session ends."""
    try:
        yield
    except Py4JJavaError as error:
        raise SparkFailed(f"{failure}: {error.java_exception.toString().splitlines()[0]}") from None
    except PySparkException as error:
        raise SparkFailed(f"{failure}: {str(error).splitlines()[0]}") from None


def _configuration(settings: SparkSettings) -> dict[str, str]:
    configuration = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # A Spark job that lists the files takes longer than listing them here.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    }
    if settings.is_local:
        # Nothing outside this machine connects, and the machine's own name may not resolve.
        configuration |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if settings.quick:
        # With few rows, compiled expressions, adaptive plans, a second partition and the job that each broadcast needs
        # take more time than they save. Three replays of a small run took 42 s of processor time without these
        # settings, 30 s with them.
        configuration |= {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
    elif settings.is_local:
        configuration |= {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2))}
    return configuration


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the block runs, by which PySpark finds its gateway."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ------------------------------------------------------------------ the views


def _views(spark: SparkSession, files: Sequence[Path], settings: SparkSettings) -> dict[str, DataFrame]:
    """Create all views over the lines of `files`, and return them by name.

    Views that many others read become local checkpoints: they are computed once, when first needed, and are leaves to
    Spark's planner. Without them a plan would repeat everything below a view wherever it is read, and planning would
    take minutes.
    """
    text = spark.read.text([str(file.absolute()) for file in files], lineSep="\n").selectExpr(
        "value",
        "_metadata.file_path AS file",
        "_metadata.file_block_start AS block",
        "monotonically_increasing_id() AS id",
    )
    # Data in one partition needs no exchange, which saves more than half of the stages.
    (text.coalesce(1) if settings.quick else text).createOrReplaceTempView("text")
    views: dict[str, DataFrame] = {}
    types = {name: _type_query(name) for name in queries.TYPES}
    for name, sql in (line_queries.VIEWS | types | queries.VIEWS).items():
        view = spark.sql(sql)
        if name in (*line_queries.KEPT_VIEWS, *queries.KEPT_VIEWS):
            # A checkpoint keeps the ids of its columns, which would clash with those of the views that it reads.
            view = view.localCheckpoint(eager=False).toDF(*view.columns)
        view.createOrReplaceTempView(name)
        views[name] = view
    return views


def _type_query(name: str) -> str:
    payload = PAYLOAD_BY_TYPE[name]
    return f"""
        SELECT run, us, node, incarnation, seq, cause, controller_epoch, {data_columns(payload, "read")} AS data
        FROM (SELECT *, from_json(data, '{data_ddl(payload)}') AS read FROM records WHERE type = '{name}')"""


# ------------------------------------------------------------------ the results


def _check_output(output: Path) -> None:
    existing = [name for name in TABLES if (output / name).exists()]
    if existing:
        raise TablesExist(f"{output} holds tables already ({', '.join(existing)}); give another folder, or remove them")


def _write(views: Mapping[str, DataFrame], output: Path) -> None:
    for name, columns in _COLUMNS.items():
        views[name].select("run", *columns).write.parquet(str((output / name).absolute()))


class _Row(NamedTuple):
    kind: str
    run: str
    place: int
    row: str


def _collect(
    views: Mapping[str, DataFrame], files: Sequence[Path], findings: Sequence[LogFinding], engine: str
) -> Replay:
    parts = [_as_json(views, name) for name in TABLES]
    parts += [
        views["flaws_by_file"].selectExpr(f"'{_FLAWS}' AS kind", "'' AS run", "0 AS place", "file AS row").limit(1)
    ]
    parts += [
        views["files"].selectExpr(f"'{_FILES}' AS kind", "file AS run", "CAST(lines AS INT) AS place", "'' AS row")
    ]
    union = parts[0]
    for part in parts[1:]:
        union = union.unionAll(part)
    by_kind: dict[str, list[_Row]] = {}
    for collected in union.collect():
        row = _Row(*collected)
        by_kind.setdefault(row.kind, []).append(row)
    names = {str(file.absolute()): str(file) for file in files}
    read = {names[_path(row.run)]: row.place for row in by_kind.get(_FILES, ())}
    flaws = _flaws(views["findings"], names) if by_kind.get(_FLAWS) else []
    empty = _empty([file for file in files if str(file) not in read])
    return Replay(
        runs=_runs({name: by_kind.get(name, []) for name in TABLES}),
        findings=tuple(sorted([*findings, *empty, *flaws])),
        lines=sum(read.values()),
        engine=engine,
    )


def _as_json(views: Mapping[str, DataFrame], name: str) -> DataFrame:
    place = "place" if "place" in views[name].columns else "0"
    row = f"to_json(struct({', '.join(_COLUMNS[name])}), map('ignoreNullFields', 'false')) AS row"
    return views[name].selectExpr(f"'{name}' AS kind", "run", f"CAST({place} AS INT) AS place", row)


def _flaws(findings: DataFrame, names: Mapping[str, str]) -> list[LogFinding]:
    return [
        LogFinding(names[_path(row["file"])], row["line"], row["kind"], row["what"], row["times"])
        for row in findings.select("file", "line", "kind", "what", "times").collect()
    ]


def _empty(files: Sequence[Path]) -> list[LogFinding]:
    return [LogFinding(str(file), 0, EMPTY_FILE, "") for file in files]


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path)


def _runs(rows_by_table: Mapping[str, Sequence[_Row]]) -> tuple[RunMetrics, ...]:
    tables: dict[str, dict[str, list[Table]]] = {}
    for name, rows in rows_by_table.items():
        for row in sorted(rows, key=lambda row: row.place):
            decoded = msgspec.json.decode(row.row, type=TABLES[name])
            tables.setdefault(row.run, {}).setdefault(name, []).append(decoded)
    return tuple(_metrics(run, tables[run]) for run in sorted(tables))


def _metrics(run: str, tables: Mapping[str, list[Table]]) -> RunMetrics:
    sorted_tables = {
        name: tuple(
            sorted(tables.get(name, ()), key=lambda row: tuple(getattr(row, column) for column in SORTED_BY[name]))
        )
        for name in SORTED_BY
    }
    (totals,) = tables["totals"]
    moments = tuple(tables.get("moments", ()))
    return msgspec.convert({"run": run, "totals": totals, "moments": moments, **sorted_tables}, RunMetrics)
