"""Grafana dashboards, Prometheus rules and their runbook, written down once and generated from here.

    python -m helm.generator            # writes helm/monitoring
    python -m helm.generator --check    # status 1 when helm/monitoring is not what would be written

`model` says what they are made of, `*_board` and `alerts` what there is, `render` and `write` make the files.
"""
