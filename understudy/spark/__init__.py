"""Everything that runs in Apache Spark; the only package that imports pyspark.

`gateway` starts a Java for Spark, and `replay_job` computes the tables of `foundation.eventlog.metric_tables`.
"""
