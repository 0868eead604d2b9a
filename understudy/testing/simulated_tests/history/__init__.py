"""What passed over the wire of each client of a simulated cluster, and what a test can assert of it."""
