// The table outbox_events, within the transactions of whoever calls.
//
// A row is to be sent while `processed` is false. It was sent if `processed` is true and there is
// no `error_message`, and it was given up ("dead") if there is one.
'use strict';
const { randomUUID } = require('node:crypto');

const COLUMNS = `o.id, o.aggregate_id AS "aggregateId", o.event_type AS "eventType", o.version,
  o.payload::text AS payload, o.metadata::text AS metadata,
  to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "createdAt"`;

// The first unsettled row of a key is the key's lock: whoever holds it may send all that follows,
// and nobody else may, because they see an earlier row that is not sent. A dead row holds back its
// key until somebody decides about it.
const CLAIM = `
  WITH first AS (
    SELECT o.aggregate_id FROM outbox_events AS o
    WHERE NOT o.processed AND o.aggregate_id <> ALL ($2::text[])
      AND NOT EXISTS (
        SELECT 1 FROM outbox_events AS earlier
        WHERE earlier.aggregate_id = o.aggregate_id AND NOT earlier.processed
          AND (earlier.created_at, earlier.id) < (o.created_at, o.id))
      AND NOT EXISTS (
        SELECT 1 FROM outbox_events AS dead
        WHERE dead.aggregate_id = o.aggregate_id AND dead.processed
          AND dead.error_message IS NOT NULL)
    ORDER BY o.created_at, o.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED)
  SELECT ${COLUMNS} FROM outbox_events AS o
  WHERE NOT o.processed AND o.aggregate_id IN (SELECT aggregate_id FROM first)
  ORDER BY o.created_at, o.id
  LIMIT $1`;

// Finds the keys that wait behind a dead row. A hash bears keys of any length.
const DEAD_INDEX = `
  CREATE INDEX IF NOT EXISTS outbox_events_dead_idx ON outbox_events USING hash (aggregate_id)
  WHERE processed AND error_message IS NOT NULL`;

/** Before claims are made, once. */
async function prepare(tx) {
  await tx.query(DEAD_INDEX);
}

/** Writes an event down, to be sent if the transaction commits. Returns its id. */
async function add(tx, { aggregateId, eventType, version = 1, payload, metadata }) {
  const id = randomUUID();
  await tx.query(
    `INSERT INTO outbox_events (id, aggregate_id, event_type, version, payload, metadata)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [id, aggregateId, eventType, version, json(payload), json(metadata)],
  );
  return id;
}

const json = (value) => (value === undefined ? null : JSON.stringify(value));

/** Rows to send, in order. Other workers skip their keys until the transaction ends. */
async function claim(tx, limit, keysToLeave = []) {
  return (await tx.query(CLAIM, [limit, keysToLeave])).rows;
}

async function find(tx, id) {
  const found = await tx.query(`SELECT ${COLUMNS} FROM outbox_events AS o WHERE o.id = $1`, [id]);
  return found.rows[0];
}

async function markProcessed(tx, ids) {
  await tx.query(
    `UPDATE outbox_events
     SET processed = true, processed_at = clock_timestamp(), error_message = NULL
     WHERE id = ANY ($1::uuid[])`,
    [ids],
  );
}

/** Says why a row could not be sent. With `dead` it is given up; else it is tried again. */
async function markFailed(tx, id, errorMessage, dead) {
  await tx.query('UPDATE outbox_events SET processed = $3, error_message = $2 WHERE id = $1', [
    id, errorMessage, dead,
  ]);
}

/** Deletes what was sent so long ago. What is dead stays. */
async function purge(tx, days) {
  const deleted = await tx.query(
    `DELETE FROM outbox_events WHERE processed AND error_message IS NULL
     AND processed_at < clock_timestamp() - make_interval(days => $1)`,
    [days],
  );
  return deleted.rowCount;
}

module.exports = { prepare, add, claim, find, markProcessed, markFailed, purge };
