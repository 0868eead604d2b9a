"""Makes the plans of `understudy plan`; only `rate_measurement` needs a cluster.

Each plan is a `PlanAnswer`, which is printed as text or written as HTML. Replicas are chosen and partitions assigned by
the code that a controller and a consumer run.
"""
