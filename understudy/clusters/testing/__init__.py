"""A cluster as a test of a Kafka client sees it, and conditions to wait for.

Other projects import these names from `understudy.testing`, and `understudy.pytest_plugin` gives the cluster to tests
as the fixture `understudy_cluster`. Nothing here imports pytest.
"""
