"""One suite, two subjects: what we believe of ZooKeeper is a case that the real server and the simulator must both
pass."""
