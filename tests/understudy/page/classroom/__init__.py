"""Tests of a class that takes part in a lesson."""
