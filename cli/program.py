"""The program `diskless` as a process: signals and streams first, then the command, then the end at once."""

from __future__ import annotations

import sys
from typing import NoReturn

from cli.ending import STOPPED, hear_signals, leave, refuse_undecodable, say_last, take_signals, take_streams
from coordinator.app.process.logs import MESSAGE, set_up_logging


def main() -> NoReturn:
    """Run the program and end the process."""
    take_signals()
    take_streams()
    hear_signals()
    set_up_logging("WARNING", MESSAGE)
    status: object
    try:
        wrong = refuse_undecodable(sys.argv[1:])
        if wrong is not None:
            say_last(f"diskless: {wrong}")
            leave(2)
        # Imported after the signals: a Ctrl-C meanwhile ends it as at any other time.
        from cli.main import root

        root(prog_name="diskless")
        status = 0
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:
        say_last(STOPPED)
        status = 1
    leave(status)


if __name__ == "__main__":
    main()
