"""Tests of a Kafka client in virtual time.

| room | contents |
|---|---|
| `workers` | a call of a test: its seeds, in processes of their own |
| this one | the declaration of a test, the cluster that it gets, and one run of it |
| `report` | what a person gets of a run that has failed |
| `verdict` | finds why a run has failed |
| `faults` | faults that a seed draws, and their injection |
| `history` | what passed over the wire of each client, and what a test can assert of it |
"""
