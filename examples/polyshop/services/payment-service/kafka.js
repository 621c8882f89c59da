// The cluster's client.
'use strict';
const { Kafka, Partitioners, logLevel } = require('kafkajs');

function cluster({ service, brokers }, more = {}) {
  return new Kafka({
    clientId: service,
    brokers,
    requestTimeout: 10_000,
    retry: { initialRetryTime: 100, retries: 5 },
    // What it would say is said here with the ids of the event that it happened to.
    logLevel: logLevel.NOTHING,
    ...more,
  });
}

/**
 * Sends with the acknowledgement of all replicas; who sends deals with failures, after few tries
 * here.
 */
function producerOf(kafka) {
  return kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: 100, retries: 2 },
  });
}

module.exports = { cluster, producerOf };
