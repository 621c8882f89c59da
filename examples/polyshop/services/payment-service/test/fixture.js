// A schema, a topic prefix and a cluster client of a test's own, on real servers.
'use strict';
const { randomBytes, randomUUID } = require('node:crypto');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');
const { connect } = require('../database');
const { cluster, producerOf } = require('../kafka');
const { startTracing } = require('../tracing');
const { settings } = require('../settings');

const SQL = path.join(__dirname, '../../../sql/payment-service.sql');
// As `postrider init` makes them for the layout polyshop.
const TABLES = `
  CREATE TABLE outbox_events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id text NOT NULL,
    event_type text NOT NULL, version integer NOT NULL DEFAULT 1, payload json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    processed boolean NOT NULL DEFAULT false, processed_at timestamptz, error_message text,
    metadata jsonb);
  CREATE TABLE processed_events (
    event_id uuid PRIMARY KEY, processed_at timestamptz NOT NULL DEFAULT now(), event_type text,
    source text);`;

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

function needed(name) {
  if (!process.env[name]) throw new Error(`please set ${name}: eval "$(scripts/services up)"`);
  return process.env[name];
}

/** Waits for `probe` to give something that is true, with a deadline. */
async function eventually(what, probe, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  let seen;
  while (Date.now() < end) {
    seen = await probe();
    if (seen) return seen;
    await sleep(20);
  }
  throw new Error(`${what}: not within ${seconds} s`);
}

/** `t` is the test's; what is made for it goes with it. */
async function fixture(t, { topics = [], more = {}, kafkaMore = {} } = {}) {
  const name = `node_${randomBytes(8).toString('hex')}`;
  const url = needed('POSTRIDER_TEST_POSTGRES_URL');
  const databaseUrl = `${url}${url.includes('?') ? '&' : '?'}options=-csearch_path%3D${name}`;
  const environment = {
    DATABASE_URL: databaseUrl,
    KAFKA_BOOTSTRAP: needed('POSTRIDER_TEST_KAFKA'),
    TOPIC_PREFIX: `${name}.`,
    ...more,
  };
  const given = settings(environment);
  const pool = connect(databaseUrl, 8);
  await pool.query(`CREATE SCHEMA ${name}`);
  await pool.query(readFileSync(SQL, 'utf8') + TABLES);
  const kafka = cluster(given, kafkaMore);
  const admin = kafka.admin();
  const producer = producerOf(kafka);
  await Promise.all([admin.connect(), producer.connect()]);
  const shop = {
    name, given, pool, kafka, admin, producer, environment, tracer: startTracing('test').tracer,
  };
  Object.assign(shop, events(shop), { launch: (script) => launch(t, environment, script) });
  t.after(async () => {
    const made = (await admin.listTopics()).filter((topic) => topic.startsWith(given.prefix));
    if (made.length > 0) await admin.deleteTopics({ topics: made });
    await Promise.all([admin.disconnect(), producer.disconnect()]);
    await pool.query(`DROP SCHEMA ${name} CASCADE`);
    await pool.end();
  });
  await shop.createTopics(topics);
  return shop;
}

function events({ admin, kafka, producer, given, name, pool }) {
  const topicOf = (eventType) => given.prefix + eventType;
  /** Topics with two partitions. */
  async function createTopics(eventTypes, configEntries = []) {
    if (eventTypes.length === 0) return;
    const made = { numPartitions: 2, configEntries };
    const topics = eventTypes.map((eventType) => ({ topic: topicOf(eventType), ...made }));
    // kafkajs gives up on a topic that not every part of a busy broker knows yet.
    await admin.createTopics({ topics, waitForLeaders: false });
    const names = topics.map(({ topic }) => topic);
    await eventually('the topics are known', () =>
      admin.fetchTopicMetadata({ topics: names }).then(() => true, () => false));
  }
  /** Waits for so many records of a topic, in the order of their partitions. */
  async function records(eventType, count) {
    const topic = topicOf(eventType);
    await eventually(`${count} records of ${eventType}`, async () => {
      const ends = await admin.fetchTopicOffsets(topic);
      return ends.reduce((sum, end) => sum + Number(end.high), 0) >= count;
    });
    const found = [];
    const groupId = `${name}.reader.${randomUUID()}`;
    const reader = kafka.consumer({ groupId, maxWaitTimeInMs: 50 });
    await reader.connect();
    await reader.subscribe({ topics: [topic], fromBeginning: true });
    await reader.run({ eachMessage: async ({ message }) => { found.push(message); } });
    await eventually('records are read', () => found.length >= count);
    await reader.disconnect();
    return found;
  }
  async function send(eventType, envelope, headers) {
    const message = { key: envelope.data.orderId, value: JSON.stringify(envelope), headers };
    await producer.send({ topic: topicOf(eventType), messages: [message] });
  }
  const rows = async (sql, ...values) => (await pool.query(sql, values)).rows;
  return { topicOf, createTopics, records, send, rows };
}

/** A program of the service, as a process of its own. Killed with the test. */
function launch(t, environment, script) {
  const child = spawn(process.execPath, [path.join(__dirname, '..', script)], {
    env: { ...process.env, ...environment, LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  child.stderr.on('data', (data) => { text += data; });
  const ended = new Promise((resolve) => { child.once('exit', (code) => resolve(code)); });
  t.after(() => child.kill('SIGKILL'));
  const lines = () => text.split('\n').slice(0, -1).map((line) => JSON.parse(line));
  const found = (message) => lines().find((line) => line.message === message);
  const logged = (message) => eventually(`${script} logs "${message}"`, () => found(message));
  const stop = async () => {
    child.kill('SIGTERM');
    return { code: await ended, lines: lines() };
  };
  return { child, lines, logged, stop, ended };
}

function placed(more = {}, metadata = {}) {
  const data = {
    orderId: randomUUID(),
    userId: 'u-1',
    items: [{ productId: 'book', quantity: 2, price: 750 }],
    totalAmount: 1500,
    ...more,
  };
  return envelope('order.order.placed.v1', data, metadata);
}

function cancelled(orderId) {
  return envelope('order.order.cancelled.v1', { orderId, userId: 'u-1', reason: 'sold out' });
}

function envelope(eventType, data, metadata = {}) {
  const head = { eventId: randomUUID(), timestamp: '2026-11-18T09:30:00Z', eventType, version: 1 };
  return { ...head, source: 'order-service', data, metadata };
}

module.exports = { fixture, eventually, placed, cancelled, envelope, TRACE, PARENT };
