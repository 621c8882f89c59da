// The life of a process: it starts, and ends with 0 when it is told to, with 1 when it cannot go
// on.
'use strict';
const { log } = require('./log');

/** `start` is given what to call when it cannot go on, and returns how it is stopped. */
function runProcess(start) {
  let ending = false;
  const crashed = () => process.exit(1);
  const running = start(crashed).catch((error) => {
    log('ERROR', 'cannot run', { error: error.message });
    crashed();
  });
  const end = async () => {
    if (ending) return;
    ending = true;
    try {
      const stop = await running;
      await stop();
      process.exit(0);
    } catch (error) {
      log('ERROR', 'did not stop as it should', { error: error.message });
      crashed();
    }
  };
  process.on('SIGTERM', end);
  process.on('SIGINT', end);
}

module.exports = { runProcess };
