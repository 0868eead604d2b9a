"""The parts of a soak that use the machine: verbs on the cluster, clients, event logs and the soak's files."""
