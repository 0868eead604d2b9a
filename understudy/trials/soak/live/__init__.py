"""What a soak does on the machine: verbs on the cluster, clients, event logs and its own files."""
