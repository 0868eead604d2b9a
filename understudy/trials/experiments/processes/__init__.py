"""The engine that runs an experiment on processes of this machine."""
