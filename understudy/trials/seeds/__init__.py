"""Simulated runs whose faults and requests are drawn from a seed, and crash points of the controller.

`seeds` runs a seed and judges it, `seed_plans` draws what happens in it, `crash_points` injects a fault at each named
point of the procedures, and `story` runs a scenario from a text file.
"""
