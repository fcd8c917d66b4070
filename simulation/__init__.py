"""A whole cluster in one process on virtual time: the product's core and runtime over fakes, with faults from a seed.

`run.simulate(scenario)` lives one life and tells what rule it broke, if any; see `scenario`, `faults`, `judge`, `weakened`.
"""
