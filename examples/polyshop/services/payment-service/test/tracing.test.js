// Spans as a collector gets them, over OTLP.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const grpc = require('@grpc/grpc-js');
const { contextOf, startConsume, startPublish, startTracing } = require('../tracing');
const { TRACE, PARENT } = require('./fixture');

/** Keeps the requests that it is sent, undecoded. */
async function collector(t) {
  const requests = [];
  const server = new grpc.Server();
  const whole = (bytes) => bytes;
  const method = {
    path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
    requestStream: false,
    responseStream: false,
    requestSerialize: whole,
    requestDeserialize: whole,
    responseSerialize: whole,
    responseDeserialize: whole,
  };
  server.addService({ Export: method }, {
    Export({ request }, answer) {
      requests.push(request);
      answer(null, Buffer.alloc(0));
    },
  });
  t.after(() => server.forceShutdown());
  const port = await new Promise((resolve, reject) => {
    const bound = (error, number) => (error ? reject(error) : resolve(number));
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), bound);
  });
  return { requests, endpoint: `http://127.0.0.1:${port}` };
}

// A3-14: the trace goes on from the event that was consumed to the one that follows.
test('spans reach the collector in the trace that they follow from', async (t) => {
  const { requests, endpoint } = await collector(t);
  const tracing = startTracing('payment-service', endpoint);
  const consume = startConsume(tracing.tracer, PARENT, {});
  const publish = startPublish(tracing.tracer, contextOf(consume).traceparent, {});
  for (const span of [publish, consume]) {
    assert.equal(span.spanContext().traceId, TRACE);
    span.end();
  }
  await tracing.stop();
  const sent = Buffer.concat(requests);
  for (const part of ['payment-service', 'consume', 'publish']) {
    assert.ok(sent.includes(part), part);
  }
  const spans = [consume, publish].map((span) => span.spanContext().spanId);
  for (const id of [TRACE, '00f067aa0ba902b7', ...spans]) {
    assert.ok(sent.includes(Buffer.from(id, 'hex')), id);
  }
});

test('without a collector there are ids, and a parent that is none begins a trace', async () => {
  const { tracer } = startTracing('payment-service');
  for (const parent of [undefined, 'nonsense', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`]) {
    const { traceId, traceparent } = contextOf(startConsume(tracer, parent, {}));
    assert.match(traceId, /^(?!0{32})[0-9a-f]{32}$/);
    assert.ok(traceparent.startsWith(`00-${traceId}-`));
  }
});
