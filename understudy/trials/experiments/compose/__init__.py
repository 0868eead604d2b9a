"""The engine that runs an experiment in containers of a compose project."""
