"""Benchmarks: what things cost here, as ratios of one run wherever there is something to run beside."""
