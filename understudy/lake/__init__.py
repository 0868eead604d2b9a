"""Event logs as Parquet tables: typed, compacted, and added to run by run."""
