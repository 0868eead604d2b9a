"""Tests that no acknowledged record is lost while brokers are killed, paused and stopped."""
