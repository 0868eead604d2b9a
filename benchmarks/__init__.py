"""Benchmarks of the brokers, beside a reference measured in the same run wherever there is one."""
