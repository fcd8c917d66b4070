"""The monitor's page: what the job wrote into the store, what coordinators say of themselves, and one verdict over both.

`app` serves, `panels` turn the store into JSON (one subject each), `verdict` judges, `service_metrics` scrapes /metrics, `static`
is the page. Invariant: it only reads, but for acknowledgements of findings with a token (`writes`); nothing here ever writes
to the log or the service.
"""
