"""Kafka's records: message format 2, as it is in logs and in Produce and Fetch.

`batch` reads and changes the headers of batches, `record` reads and writes the records in them, `compression` bounds
what a batch may become when it is decompressed. Mirrors `org.apache.kafka.common.record`.
"""
