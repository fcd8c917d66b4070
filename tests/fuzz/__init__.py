"""Fuzzing of everything that reads bytes from outside: `python -m tests.fuzz --help`.

`targets` are the parsers and what must hold of them, `mutation` makes inputs, `engine` runs them and judges. Inputs that
once reached new code, and all that once were a finding, are kept in `corpus/<target>/*.hex`; `test_fuzz` replays them and
a short, always equal run of mutations.
"""
