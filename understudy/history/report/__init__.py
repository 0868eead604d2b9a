"""Computes the metrics of one run or thousands from their event logs, and prints them as a page. Needs no Spark.

`runs` finds the runs of files, `kernel` computes the tables of one run, `growing` those of a run that goes on, `tasks`
packs whole runs for workers, of this machine or of Spark, and `report` turns tables into a page.
"""
