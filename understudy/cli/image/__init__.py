"""The container image: it takes the variables, the script names and the volumes of the Kafka images in use.

`python -m understudy.cli.image` is its entry point. `variables`, `listeners`, `kraft` and `zookeeper_variables` turn an
environment into properties, `plan` puts them together, and these modules know nothing outside of their arguments.
`container` runs the plan. `names` has the names of Kafka's scripts, and `scripts` runs them.
"""
