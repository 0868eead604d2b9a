"""Copies topics with their records and the offsets of their groups from one cluster to another.

`mirror` runs a copy, `copies` has the state of each partition, `offset_map` maps the offsets of source and target,
`batches` changes the batches, and `progress` stores the progress. Mirrors MirrorMaker 2 (KIP-382).
"""
