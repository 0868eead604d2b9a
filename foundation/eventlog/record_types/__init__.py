"""The record types of the event log, by the component that writes them (`understudy.foundation.eventlog.records` lists
all).
"""
