"""Computes metrics of one run or thousands from their event logs, with Spark, and prints them as a page.

`foundation.eventlog.metric_tables` defines the metrics. `schema` derives Spark's types from the record types,
`line_queries` and `queries` are SQL, `gateway` starts a Java for Spark, `spark_job` is the only module that imports
pyspark, `report` turns tables into a page. The package imports only `foundation.eventlog`, `foundation.cluster` and
`understudy.java`: every number comes from files that others can read, too.
"""
