"""Defines the functions that Spark's workers run on tasks. No module here imports pyspark.

A kernel takes encoded tasks and yields results; `results` turns it into a function for a DataFrame.
`measuring` computes the tables of runs, `writing` writes the parts of a lake, `comparing` summarises groups of runs,
and `simulating` runs seeds. A kernel is sent to workers by its name, so each module imports only what its tasks need.
"""
