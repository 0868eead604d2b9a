"""Copies topics with their records and the offsets of their groups from one cluster to another.

`mirror` runs a copy, `copies` is what it knows of each partition, `offset_map` which offset of the target is which of
the source, `batches` what is changed in a batch, `progress` where all this is kept. Mirrors MirrorMaker 2 (KIP-382).
"""
