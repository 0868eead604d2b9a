"""Report cards of stock clients: what a client that is held open makes of each fault, judged from what it prints.

`drivers` starts the programs of examples/clients, `scenes` injects the faults, `judge` compares what a client printed
with what the log holds, `page` writes docs/reference/clients.md. `python -m devtools.report_cards --help` runs
them.
"""
