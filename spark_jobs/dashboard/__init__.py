"""The monitor's page: what the job wrote into the store, whether the coordinators answer, and one verdict over both.

`app` serves, `panels` turn the store into JSON (one subject each), `verdict` judges, `nodes` asks for /metrics, `static`
is the page. Invariant: it only reads, but for acknowledgements of findings with a token (`writes`); nothing here ever writes
to the log or the service.
"""
