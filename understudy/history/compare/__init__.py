"""Compares runs by their settings: distributions, intervals, and changes that exceed noise."""

from understudy.extras import require

require("spark", "numpy")
