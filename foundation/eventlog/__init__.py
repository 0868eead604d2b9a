"""The event log: its record types, and how they are written, read, put in order and measured.

Every node writes typed, versioned JSON lines before the effect they describe leaves the node. Checkers, reports and
replay read nothing else. Named fences and named points are here too, because they write records. Kafka has nothing of
this name; its state-change log is the closest. Imports `cluster` and msgspec.
"""
