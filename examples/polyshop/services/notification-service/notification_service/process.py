"""The life of a process: it ends with 0 when it is told to, with 1 when it cannot go on."""

import signal
import sys
import threading

from .errors import message_of
from .log import log


def run_process(main):
    """`main` is given an event that is set when the process is told to stop."""
    stopping = threading.Event()
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda *_: stopping.set())
    try:
        main(stopping)
    except Exception as error:
        log("ERROR", "cannot run", error=message_of(error))
        sys.exit(1)
