// The service's own database, and its transactions.
'use strict';
const { Pool } = require('pg');
const { log } = require('./log');

function connect(databaseUrl, max = 8) {
  const pool = new Pool({
    connectionString: databaseUrl,
    max,
    // A server that has fallen silent is a temporary error, not a service that stands still.
    connectionTimeoutMillis: 10_000,
    query_timeout: 30_000,
    keepAlive: true,
  });
  pool.on('error', (error) => log('WARN', 'connection lost', { error: error.message }));
  return pool;
}

/** Commits what `work` does with its connection, or nothing of it. */
async function transaction(pool, work) {
  const tx = await pool.connect();
  let broken;
  // Without a listener, a connection that dies between two statements would end the process.
  const onError = (error) => { broken = error; };
  tx.on('error', onError);
  try {
    await tx.query('BEGIN');
    const result = await work(tx);
    await tx.query('COMMIT');
    return result;
  } catch (error) {
    await tx.query('ROLLBACK').catch((failed) => { broken ??= failed; });
    throw error;
  } finally {
    tx.removeListener('error', onError);
    // A connection whose state is not known is closed; the server rolls back what it had begun.
    tx.release(broken);
  }
}

module.exports = { connect, transaction };
