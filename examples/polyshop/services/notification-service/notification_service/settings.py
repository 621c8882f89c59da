"""What the service is told by its environment. The names are the same in every language."""

import os
import re
from dataclasses import dataclass

SERVICE = "notification-service"


@dataclass(frozen=True)
class Settings:
    database_url: str
    kafka: str
    prefix: str
    listen: tuple
    collector: str
    smtp: tuple
    mail_domain: str
    batch_size: int
    idle_sleep: float
    retry_sleep: float
    keep_days: int

    def topic(self, event_type):
        return self.prefix + event_type


def required(env, name):
    if not env.get(name):
        raise ValueError(f"please set {name}")
    return env[name]


def whole_number(env, name, otherwise):
    text = env.get(name) or str(otherwise)
    if not re.fullmatch("[0-9]+", text) or (int(text) == 0 and otherwise != 0):
        raise ValueError(f'{name} is "{text}"; please set a whole number above 0')
    return int(text)


def address(text):
    """`host:port`; port 0 takes a free one, which the log tells."""
    found = re.fullmatch(r"\[?(.+?)\]?:([0-9]+)", text)
    if not found:
        raise ValueError(f'LISTEN is "{text}"; please set host:port')
    return found[1], int(found[2])


def from_environment(env=os.environ):
    return Settings(
        database_url=required(env, "DATABASE_URL"),
        kafka=required(env, "KAFKA_BOOTSTRAP"),
        prefix=env.get("TOPIC_PREFIX", ""),
        listen=address(env.get("LISTEN") or "127.0.0.1:0"),
        collector=env.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        smtp=(env.get("SMTP_HOST") or "127.0.0.1", whole_number(env, "SMTP_PORT", 25)),
        mail_domain=env.get("MAIL_DOMAIN") or "polyshop.example",
        # The outbox worker's; it keeps rows for ever where there are no days to keep them.
        batch_size=whole_number(env, "BATCH_SIZE", 100),
        idle_sleep=whole_number(env, "IDLE_SLEEP_MS", 500) / 1000,
        retry_sleep=whole_number(env, "RETRY_SLEEP_MS", 200) / 1000,
        keep_days=whole_number(env, "OUTBOX_KEEP_DAYS", 0),
    )
