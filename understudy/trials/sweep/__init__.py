"""Sweeps: one failover of the controller for each combination of settings, in the simulator or on processes."""
