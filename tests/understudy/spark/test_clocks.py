"""SQL computes from the rows of `clocks` the same times as the kernel, to the microsecond."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.understudy.history.reading.clock_runs import moved, on_one_machine
from tests.understudy.spark.oracle.sql_replay import comparable, replay_with_sql
from understudy.history.report.replay import replay_in_python


def test_sql_computes_the_same_for_several_machines(session: SparkSession, tmp_path: Path) -> None:
    rates = {"broker-1": 1.0004, "broker-2": 0.9997, "broker-3": 1.00049, "broker-4": 0.99951}
    lines = moved(
        on_one_machine(),
        lambda node, ms: 1_000_000 * len(node) + 77_777 * int(node[-1]) + ms * rates[node] if node in rates else ms,
        lambda node, incarnation: f"boot of {node}",
    )
    for name, text in lines.items():
        (tmp_path / name).write_bytes(b"".join(text))
    (by_kernel,) = replay_in_python([tmp_path]).runs
    (by_sql,) = replay_with_sql(session, [tmp_path]).runs
    assert len({row.boot for row in by_kernel.clocks}) > 1
    assert any(row.offset_ms for row in by_kernel.clocks)
    assert comparable(by_sql) == comparable(by_kernel)
