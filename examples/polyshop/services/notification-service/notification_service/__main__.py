"""`python -m notification_service`: the service."""

from .cluster import consumer_of, producer_of
from .consumer import Consumption, Parts
from .log import log
from .models import connect
from .notifications import Notifier
from .probes import consumer_counters, database_problem, serve
from .process import run_process
from .settings import SERVICE, from_environment
from .tracing import start_tracing


def main(stopping):
    settings = from_environment()
    tracing = start_tracing(SERVICE, settings.collector)
    count = consumer_counters(SERVICE)
    engine = connect(settings.database_url)
    handlers = Notifier(settings.smtp, settings.mail_domain).handlers()
    tracer = tracing.get_tracer(SERVICE)
    parts = Parts(engine, producer_of(settings), tracer, count, handlers)
    topics = [settings.topic(event_type) for event_type in handlers]
    consumption = Consumption(consumer_of(settings), topics, parts)

    def problem():
        if not consumption.joined:
            return "consumer: has not joined its group"
        return database_problem(engine)

    serve(settings.listen, count.registry, problem)
    log("INFO", "consumer runs")
    consumption.run(stopping)
    engine.dispose()
    tracing.shutdown()


run_process(main)
