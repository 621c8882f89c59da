// payment-service in Node.js. Of Postrider it knows the tables processed_events and outbox_events
// and nothing else: a relay beside it, or outboxWorker.js, publishes what stands in the latter.
'use strict';
const { startConsumer } = require('./consumer');
const { connect } = require('./database');
const { consumerMetrics, databaseProblem, serve } = require('./http');
const { cluster, producerOf } = require('./kafka');
const { log } = require('./log');
const { paymentHandlers } = require('./paymentDomainService');
const { runProcess } = require('./process');
const { settings } = require('./settings');
const { startTracing } = require('./tracing');

async function start(crashed) {
  const given = settings();
  const tracing = startTracing(given.service, given.collector);
  const { registry, count } = consumerMetrics(given.service);
  const pool = connect(given.databaseUrl);
  const kafka = cluster(given);
  const producer = producerOf(kafka);
  let consumer;
  const problem = async () =>
    (consumer?.runs() ? databaseProblem(pool) : 'consumer: has not joined its group');
  const server = await serve(given.listen, registry, problem);
  await producer.connect();
  const parts = { pool, producer, tracer: tracing.tracer, count, handlers: paymentHandlers(given) };
  consumer = await startConsumer(kafka, parts, given, crashed);
  log('INFO', 'consumer runs');
  return async () => {
    await consumer.stop();
    await producer.disconnect();
    await pool.end();
    server.close();
    await tracing.stop();
  };
}

runProcess(start);
