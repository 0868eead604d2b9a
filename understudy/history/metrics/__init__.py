"""The metrics of a run: `metric_tables` defines the tables, and `metrics` computes them from the records.

`row_tables` has the tables with a row for each request, leadership, event and fault. If records are missing, `doubt`
and `row_doubt` mark the columns that they may change.
"""
