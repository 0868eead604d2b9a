"""Tests that are written for virtual time, on broker processes: the same names, in real time."""
