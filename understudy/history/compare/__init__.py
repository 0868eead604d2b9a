"""Compares runs by their settings: distributions, intervals, and what is more than noise."""

from understudy.extras import require

require("spark", "numpy")
