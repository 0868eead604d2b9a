"""Event logs of one run or thousands as tables and one page: Spark computes what `foundation.eventlog.metrics` defines.

`schema` derives Spark's types from the record types, `queries` says the metrics in SQL, `gateway` starts a Java for
Spark, `spark_job` is the only module that imports pyspark, `report` turns tables into a page. Imports
`foundation.eventlog`, `foundation.cluster` and `understudy.java` only: whatever is shown here anybody can verify from a
file.
"""
