/** Producing: an event's row, written in the transaction of the change that it tells of. */
package polyshop.outbox;
