"""The Spark schemas have all fields of the record types, and the tables have views."""

from __future__ import annotations

import msgspec
import pytest

from tests.understudy.spark.oracle import line_queries, queries
from tests.understudy.spark.oracle.schema import data_columns, data_ddl, field_rules
from tests.understudy.spark.oracle.sql_replay import SQL_TABLES
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, LeadershipWritten, Payload, RequestDetail
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics


@pytest.fixture(scope="module")
def rules() -> str:
    return field_rules()


@pytest.mark.parametrize("payload", PAYLOAD_BY_TYPE.values(), ids=PAYLOAD_BY_TYPE.keys())
def test_every_record_type_has_a_schema_with_all_its_fields(payload: type[Payload], rules: str) -> None:
    ddl, columns = data_ddl(payload), data_columns(payload, "read")
    for field in msgspec.structs.fields(payload):
        assert f"`{field.encode_name}` " in ddl
        assert f"'{field.encode_name}', " in columns
        assert f"'{field.encode_name}'" in rules


def test_named_tuples_are_read_as_arrays_of_text_with_their_defaults() -> None:
    assert data_ddl(LeadershipWritten) == "`why` STRING, `partitions` ARRAY<ARRAY<STRING>>"
    columns = data_columns(LeadershipWritten, "read")
    assert "'isr', from_json(get(e, 4), 'ARRAY<BIGINT>')" in columns
    assert "'leader_recovery_state', coalesce(try_cast(get(e, 7) AS BIGINT), 0)" in columns
    assert "`request` STRING" in data_ddl(RequestDetail)


def test_every_table_has_a_view_and_a_field_of_run_metrics() -> None:
    fields = {field.name for field in msgspec.structs.fields(RunMetrics)}
    assert set(TABLES) == fields - {"run"}
    assert set(SQL_TABLES) <= set(queries.VIEWS)
    assert set(SORTED_BY) == set(TABLES) - {"totals", "moments", "settings"}
    assert set(queries.KEPT_VIEWS) <= set(queries.VIEWS)
    assert set(line_queries.KEPT_VIEWS) <= set(line_queries.VIEWS)
