"""The lake: the records and tables of many runs as Parquet files, with a manifest of the files that count.

`ingest` brings event logs in and removes runs, `lake` reads, `writer` and `manifest` make each change atomic. `columns`
and `log_rows` turn lines of event logs into Arrow columns, for the lake and for Spark's data source. Needs pyarrow.
Other projects import `Lake` from `understudy.lake`.
"""
