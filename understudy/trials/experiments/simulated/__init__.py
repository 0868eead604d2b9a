"""The engine that runs an experiment in virtual time."""
