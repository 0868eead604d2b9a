"""Other projects' tests run against our brokers: Apache Kafka's own integration tests and the suites of clients.

`maven` fetches Kafka's jars; `kafkas_own_tests` compiles and runs tests of Kafka, listed in `tests_of_kafka`;
`client_suites` fetches and runs the suites of four clients, listed in `tests_of_clients`. The tests in `tests/interop`
call these modules, and each runs by itself with `python -m`.
"""
