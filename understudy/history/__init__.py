"""Puts the records of event logs into one order, and computes metrics and pages from them.

`collecting` brings the files of several machines together, `reading` reads files, `metrics` computes the numbers of one
run, `report` prints them, `lake` keeps the runs, `compare` sets groups of runs beside each other, `kafka_logs` makes
event logs from the files of an Apache Kafka cluster, and `narrator` describes a record in a sentence. `writing` writes
pages as text and HTML. No module here imports the code of a cluster: the files of runs are the only input.
"""
