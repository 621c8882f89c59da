"""What an operator asks a service: /metrics, /livez, /readyz."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import prometheus_client as prometheus
from sqlalchemy import text

from .errors import message_of
from .log import log

prometheus.disable_created_metrics()


class Counters:
    """Counters with the names that Postrider's own have, so that one alert rule watches them all.

    `count(name)` counts one more.
    """

    def __init__(self, label, value, prefix, names):
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        self.counters = {
            name: prometheus.Counter(prefix + name, meaning, [label], registry=self.registry)
            .labels(value)
            for name, meaning in names.items()
        }

    def __call__(self, name):
        self.counters[name].inc()


def consumer_counters(service):
    names = {
        "handled": "deliveries whose effects were applied",
        "duplicates": "deliveries whose effects were there already",
        "dead_lettered": "deliveries put into a dead-letter topic",
        "retried": "tries that failed and are repeated",
    }
    return Counters("consumer", service, "postrider_consumer_", names)


def outbox_counters(service):
    names = {
        "published": "records the broker acknowledged",
        "failed": "failed attempts that will be repeated",
        "dead": "records given up since the start",
    }
    return Counters("outbox", service, "postrider_", names)


def database_problem(engine):
    """Why the database cannot be used, if so."""
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        return None
    except Exception as error:
        return f"database: {message_of(error)}"


def serve(listen, registry, problem):
    """Answers until the process ends. `problem()` says why the service is not ready, or None."""

    class Probes(BaseHTTPRequestHandler):
        def do_GET(self):
            status, kind, body = self.answer(self.path.split("?")[0])
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def answer(self, path):
            if path == "/livez":
                return 200, "text/plain", b"ok\n"
            if path == "/metrics":
                body = prometheus.generate_latest(registry)
                return 200, prometheus.CONTENT_TYPE_LATEST, body
            if path != "/readyz":
                return 404, "text/plain", b"there are /metrics, /livez and /readyz\n"
            found = problem()
            return (503 if found else 200), "text/plain", f"{found or 'ok'}\n".encode()

        def log_message(self, *_):
            """Questions are not logged."""

    server = ThreadingHTTPServer(listen, Probes)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log("INFO", "listening", port=server.server_address[1])
    return server
