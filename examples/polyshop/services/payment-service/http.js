// What an operator asks a service: /metrics, /livez, /readyz.
'use strict';
const http = require('node:http');
const { Counter, Registry, collectDefaultMetrics } = require('prom-client');
const { log } = require('./log');

/**
 * Counters with the names that Postrider's own have, so that one alert rule watches services in
 * every language. One per process: a service consumes, a worker publishes.
 */
function counters(label, value, names) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const made = names.map(([name, help]) => {
    const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
    counter.inc({ [label]: value }, 0);
    const short = name.replace(/^postrider_(consumer_)?(.*)_total$/, '$2');
    return [short, () => counter.inc({ [label]: value })];
  });
  return { registry, count: Object.fromEntries(made) };
}

const consumerMetrics = (service) => counters('consumer', service, [
  ['postrider_consumer_handled_total', 'deliveries whose effects were applied'],
  ['postrider_consumer_duplicates_total', 'deliveries whose effects were there already'],
  ['postrider_consumer_dead_lettered_total', 'deliveries put into a dead-letter topic'],
  ['postrider_consumer_retried_total', 'tries that failed and are repeated'],
]);

const outboxMetrics = (service) => counters('outbox', service, [
  ['postrider_published_total', 'records the broker acknowledged'],
  ['postrider_failed_total', 'failed attempts that will be repeated'],
  ['postrider_dead_total', 'records given up since the start'],
]);

/** Serves until it is closed. `problem` says why the service is not ready, or nothing. */
async function serve({ host, port }, registry, problem) {
  const answer = async (path) => {
    if (path === '/livez') return [200, 'text/plain', 'ok\n'];
    if (path === '/metrics') return [200, registry.contentType, await registry.metrics()];
    if (path !== '/readyz') return [404, 'text/plain', 'there are /metrics, /livez and /readyz\n'];
    const found = await problem();
    return found ? [503, 'text/plain', `${found}\n`] : [200, 'text/plain', 'ok\n'];
  };
  const server = http.createServer(async (request, response) => {
    const [status, type, body] = await answer(request.url.split('?')[0]);
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  log('INFO', 'listening', { port: server.address().port });
  return server;
}

/** Why the database cannot be used, if so. */
async function databaseProblem(pool) {
  try {
    await pool.query('SELECT 1');
    return undefined;
  } catch (error) {
    return `database: ${error.message}`;
  }
}

module.exports = { consumerMetrics, outboxMetrics, serve, databaseProblem };
