"""The event log: its record types, and how they are written.

Every node writes typed, versioned JSON lines before the effect they describe leaves the node. Checks and reports read
nothing else; `understudy.history` reads the lines. Named fences and named points are here too, because they write
records. Kafka has nothing of this name; its state-change log is the closest. Imports `cluster` and msgspec.
"""
