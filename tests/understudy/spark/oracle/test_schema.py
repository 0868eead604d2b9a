"""The rules for records name all fields of the record types, and each table of a replay has a view."""

from __future__ import annotations

import msgspec
import pytest

from tests.understudy.spark.oracle import line_queries
from tests.understudy.spark.oracle.schema import field_rules
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics


@pytest.fixture(scope="module")
def rules() -> str:
    return field_rules()


@pytest.mark.parametrize("payload", PAYLOAD_BY_TYPE.values(), ids=PAYLOAD_BY_TYPE.keys())
def test_the_rules_name_all_fields_of_a_record_type(payload: type[Payload], rules: str) -> None:
    for field in msgspec.structs.fields(payload):
        assert f"'{field.encode_name}'" in rules


def test_every_table_is_a_field_of_run_metrics() -> None:
    fields = {field.name for field in msgspec.structs.fields(RunMetrics)}
    assert set(TABLES) == fields - {"run"}
    assert set(SORTED_BY) == set(TABLES) - {"totals", "moments", "settings"}
    assert set(line_queries.KEPT_VIEWS) <= set(line_queries.VIEWS)
