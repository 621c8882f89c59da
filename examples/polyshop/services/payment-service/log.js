// One JSON object a line, on stderr. Lines about an event have its eventId and traceId.
'use strict';
const { SERVICE } = require('./settings');

function log(level, message, fields = {}) {
  const line = { timestamp: new Date().toISOString(), level, service: SERVICE, message, ...fields };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

module.exports = { log };
