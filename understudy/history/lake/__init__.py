"""The lake: the records and tables of many runs as Delta tables.

`ingest` brings event logs in and removes runs, `lake` reads, `writer` and `runs_table` make each change atomic, `delta`
commits files to tables. `columns` and `log_rows` turn lines of event logs into Arrow columns, for the lake and for
Spark's data source. Needs pyarrow, and deltalake except in Spark's workers. Other projects import `Lake` from
`understudy.lake`.
"""
