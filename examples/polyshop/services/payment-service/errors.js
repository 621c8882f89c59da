// Which errors are worth another try.
'use strict';

/** What will never succeed: it goes to the dead-letter topic at once. */
class PermanentError extends Error {}

// Of Postgres, data that a column cannot hold (22) and broken constraints (23). All else is tried
// again: to wait for nothing is a delay, to give up too early is a loss.
const REFUSED_DATA = /^2[23][0-9A-Z]{3}$/;

function isPermanent(error) {
  return error instanceof PermanentError || REFUSED_DATA.test(error.code ?? '');
}

/** What kafkajs says is wrong, as Kafka's protocol names it. */
const brokerError = (error) => error.type ?? error.cause?.type;

/** Waits that double up to a limit, with jitter: of 1, 2, 3… failures in a row. */
function backoffMs(failures, firstMs, maxMs = 10_000) {
  const whole = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return whole / 2 + Math.random() * (whole / 2);
}

module.exports = { PermanentError, isPermanent, brokerError, backoffMs };
