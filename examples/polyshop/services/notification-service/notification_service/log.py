"""One JSON object a line, on stderr. Lines about an event have its eventId and traceId."""

import json
import sys
from datetime import datetime, timezone

from .settings import SERVICE


def now():
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def log(level, message, **fields):
    line = {"timestamp": now(), "level": level, "service": SERVICE, "message": message}
    sys.stderr.write(json.dumps(line | fields) + "\n")
    sys.stderr.flush()
