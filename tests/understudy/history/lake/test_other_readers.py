"""Other programs read a lake as what it is, a folder of Delta tables, and get the same numbers.

Each reader is a process that imports no module of Understudy. It computes ten numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.shares import at_night
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import take
from understudy.history.lake.lake import Lake

QUERIES = dict(line.split(": ", 1) for line in Path(__file__).with_name("ten_numbers.sql").read_text().splitlines()[1:])
"""Ten numbers, as SQL that DuckDB, Polars and Spark have in common."""

TABLES = {
    "runs": "runs",
    "failovers": "tables/failovers",
    "totals": "tables/totals",
    "RequestSent": "records/RequestSent",
}

BEGIN = """
import json, sys
from deltalake import DeltaTable
lake, tables, queries = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
"""
END = """
assert not any(name.partition(".")[0] == "understudy" for name in sys.modules)
print(json.dumps(found))
"""

READERS = {
    "duckdb": """
import duckdb
database = duckdb.connect()
for name, folder in tables.items():
    database.register(name, DeltaTable(f"{lake}/{folder}").to_pyarrow_dataset())
found = {name: database.sql(query).fetchall()[0][0] for name, query in queries.items()}
""",
    "polars": """
import polars as pl
context = pl.SQLContext({name: pl.scan_delta(f"{lake}/{folder}") for name, folder in tables.items()})
found = {}
for name, query in queries.items():
    query = query.replace("year(lost_at)", "EXTRACT(YEAR FROM lost_at)")
    found[name] = context.execute(query, eager=True).item()
""",
    "pandas": """
t = {name: DeltaTable(f"{lake}/{folder}").to_pandas() for name, folder in tables.items()}
whole = t["runs"][t["runs"].state == "whole"][["run", "ingest"]]
found = {
    "runs": len(whole),
    "records": int(t["runs"][t["runs"].state == "whole"].records.sum()),
    "failovers": len(t["failovers"]),
    "longest outage": t["failovers"].outage_ms.max(),
    "lost in 2023": int((t["failovers"].lost_at.dt.year == 2023).sum()),
    "requests": len(t["RequestSent"]),
    "partitions in requests": int(t["RequestSent"].partitions.sum()),
    "of whole runs": len(t["RequestSent"].merge(whole)),
    "in failed-over runs": int(t["RequestSent"].run.isin(t["failovers"].run).sum()),
    "leaderless": t["totals"].merge(whole).leaderless_ms.sum(),
}
""",
    "spark": """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
for name, folder in tables.items():
    spark.read.parquet(*DeltaTable(f"{lake}/{folder}").file_uris()).createOrReplaceTempView(name)
found = {name: spark.sql(query).collect()[0][0] for name, query in queries.items()}
""",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of four runs, one of which has been replaced, and one removed."""
    folder = tmp_path_factory.mktemp("lake")
    killed = write(killed_controller(), folder / "runs" / "killed")
    for seed in range(3):
        write(RandomRun(seed, records=60).logs, folder / "runs" / f"random-{seed}")
    log = killed / "broker-1-0001-0001.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    take(folder / "lake", folder / "runs")
    log.write_bytes(whole)
    take(folder / "lake", folder / "runs")
    return folder / "lake"


@pytest.fixture(scope="module")
def expected(lake: Path) -> dict[str, float]:
    """The ten numbers from `Lake`."""
    opened = Lake(lake)
    failovers, totals, requests = (
        opened.read(name, incomplete=True) for name in ("failovers", "totals", "RequestSent")
    )
    failed_over = pc.is_in(requests["run"], value_set=failovers["run"].combine_chunks())
    return {
        "runs": len(opened.runs),
        "records": sum(entry.records for entry in opened.runs.values()),
        "failovers": failovers.num_rows,
        "longest outage": pc.max(failovers["outage_ms"]).as_py(),
        "lost in 2023": sum(time.year == 2023 for time in failovers["lost_at"].to_pylist()),
        "requests": requests.num_rows,
        "partitions in requests": pc.sum(requests["partitions"]).as_py(),
        "of whole runs": requests.num_rows,
        "in failed-over runs": pc.sum(failed_over).as_py(),
        "leaderless": pc.sum(totals["leaderless_ms"]).as_py(),
    }


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(name, marks=[at_night("`read_lake` reads lakes by Spark each time")] * (name == "spark"))
        for name in READERS
    ],
)
def test_the_same_ten_numbers(reader: str, lake: Path, expected: dict[str, float]) -> None:
    program = f"{BEGIN}{READERS[reader]}{END}"
    command = [sys.executable, "-c", program, str(lake), json.dumps(TABLES), json.dumps(QUERIES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=lake)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(expected.values()), "a number that is 0 compares nothing"
    assert {name: pytest.approx(value) for name, value in expected.items()} == found
