/** Consuming: every event of a topic, in order per key, with its effects once. */
package polyshop.consumer;
