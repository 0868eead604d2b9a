"""Computes the metrics of one run or thousands from their event logs, and prints them as a page. Needs no Spark.

`runs` finds the runs of files, `replay` computes their tables, `growing_logs` computes tables of runs that continue,
and `report` turns tables into a page.
"""
