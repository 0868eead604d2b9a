"""What `understudy plan` shows: plans made from what a person names, without a cluster.

Each module makes a `PlanAnswer`, which is printed as text or written as HTML. Nothing here reads a clock, a file or a
network; what chooses replicas and assigns partitions is the code that a controller and a consumer run.
"""
