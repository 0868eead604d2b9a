"""The metrics of a run: `metric_tables` defines the tables, and `metrics` computes them from the records."""
