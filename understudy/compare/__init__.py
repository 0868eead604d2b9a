"""Compares runs by their settings: distributions, intervals, and what is more than noise."""
