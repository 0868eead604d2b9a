"""Computes metrics of one run or thousands from their event logs, and prints them as a page; nothing here needs Spark.

`understudy.foundation.eventlog.metric_tables` defines the metrics, `report` turns tables into a page, and
`understudy.spark` computes them in Spark. The package imports only `understudy.foundation.eventlog` and
`understudy.foundation.cluster`: every number comes from files that others can read, too.
"""
