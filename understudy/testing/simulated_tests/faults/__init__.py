"""The faults of a test: which of them a seed draws, and how they are injected into brokers and services."""
