"""A cluster for the test of a Kafka client, and conditions to wait for.

Other projects import these names from `understudy.testing`, and `understudy.pytest_plugin` gives the cluster to tests
as the fixture `understudy_cluster`. Nothing here imports pytest.
"""
