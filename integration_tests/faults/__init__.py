"""The real thing under faults: real brokers and real nodes are killed, frozen, cut off and misled while recorded clients work.

    python -m integration_tests.faults --minutes 5 --seed 1 --report FOLDER

`network` makes namespaces and cuts them, `clock` shifts a process's clock,
`topology` starts brokers and nodes, `actions` are the faults, `nemesis` chooses and times them by a seed, `run` puts a
run together, `report` writes what was done and seen. Clients and checker are those of the other tests
(`integration_tests.load`, `integration_tests.checker`).

With `--gateways` the clients are those of others, and work through gateways (`gateway_topology`, `client_load`); `client_history` has what
they told, `client_checker` judges it.
"""
