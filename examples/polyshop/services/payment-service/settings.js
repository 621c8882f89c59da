// What the service is told by its environment. The names are the same in every language.
'use strict';

const SERVICE = 'payment-service';

function required(env, name) {
  if (!env[name]) throw new Error(`please set ${name}`);
  return env[name];
}

function wholeNumber(env, name, otherwise) {
  const value = Number(env[name] || otherwise);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new Error(`${name} is "${env[name]}"; please set a whole number above 0`);
  }
  return value;
}

/** `host:port`; port 0 takes a free one, which the log tells. */
function address(text) {
  const [, host, port] = /^(.*):(\d+)$/.exec(text) ?? [];
  if (!host) throw new Error(`LISTEN is "${text}"; please set host:port`);
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

function settings(env = process.env) {
  return {
    service: SERVICE,
    databaseUrl: required(env, 'DATABASE_URL'),
    brokers: required(env, 'KAFKA_BOOTSTRAP').split(','),
    prefix: env.TOPIC_PREFIX ?? '',
    listen: address(env.LISTEN || '127.0.0.1:0'),
    collector: env.OTEL_EXPORTER_OTLP_ENDPOINT || undefined,
    // No card takes more, in cents.
    paymentLimit: wholeNumber(env, 'PAYMENT_LIMIT', 1_000_000),
    // The outbox worker's.
    batchSize: wholeNumber(env, 'BATCH_SIZE', 100),
    idleSleepMs: wholeNumber(env, 'IDLE_SLEEP_MS', 500),
    retrySleepMs: wholeNumber(env, 'RETRY_SLEEP_MS', 200),
    keepDays: env.OUTBOX_KEEP_DAYS ? wholeNumber(env, 'OUTBOX_KEEP_DAYS') : undefined,
  };
}

module.exports = { SERVICE, settings };
