"""Judges a recorded history against a service that runs, in a process of its own: `python -m integration_tests.judge`.

For histories of versions other than that of the tests, whose entries only a process of such a version can read. Exit status 0: the
history is good; 1: it is not, and standard output has a line per contradiction.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from integration_tests.checker import check
from integration_tests.final_state import read_final_state
from integration_tests.metadata_log import read_log
from integration_tests.recording import read_recording
from integration_tests.routes import Address


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m integration_tests.judge", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("recording", type=Path, help="file that `write_recording` wrote")
    parser.add_argument("--bootstrap", required=True, help="brokers")
    parser.add_argument("--topic", required=True, help="metadata topic")
    parser.add_argument("--nodes", required=True, help="the nodes that run: a JSON object of node id to [host, port]")
    options = parser.parse_args(arguments)
    history, _ = read_recording(options.recording)
    owners = {batch.where: batch.coordinator_id for file in history.files.values() for batch in file.batches}
    nodes = {int(node_id): Address(*address) for node_id, address in json.loads(options.nodes).items()}
    final = read_final_state(nodes, owners, bootstrap=options.bootstrap, metadata_topic=options.topic)
    logs = {coordinator_id: read_log(messages) for coordinator_id, messages in final.logs.items()}
    problems = [f"coordinator {coordinator_id}: {log.unreadable}" for coordinator_id, log in logs.items() if log.unreadable is not None]
    problems += check(history, final)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
