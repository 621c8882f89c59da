//! From a Kafka record to a message, byte for byte.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{Header, Message, MessageKey, Timestamp};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers};

use super::assignment::Partition;
use super::progress::OffsetTicket;
use crate::queue::Entry;

pub(super) fn entry(
    record: &BorrowedMessage<'_>,
    partition: &Partition,
    ticket: OffsetTicket,
) -> Entry<OffsetTicket> {
    Entry {
        message: Message {
            topic: partition.topic.clone(),
            key: record.key().map(MessageKey::from),
            ordered: false,
            payload: record.payload().map(Bytes::copy_from_slice),
            headers: record.headers().map(headers).unwrap_or_default(),
        },
        published_at: record
            .timestamp()
            .to_millis()
            .map(|millis| Timestamp::from_micros(millis.saturating_mul(1_000))),
        attempt: 1,
        position: format!(
            "{}[{}]@{}",
            partition.topic,
            record.partition(),
            record.offset()
        ),
        lot: partition.lot,
        ticket,
    }
}

pub(in super::super) fn headers(headers: &BorrowedHeaders) -> Vec<Header> {
    (0..headers.count())
        .map(|index| header(headers, index))
        .collect()
}

/// A header without a value has an empty one.
fn header(headers: &BorrowedHeaders, index: usize) -> Header {
    // rdkafka panics at a name that is not UTF-8, and such a record must not end the subscription.
    let found = catch_unwind(AssertUnwindSafe(|| headers.get(index)));
    match found {
        Ok(header) => Header {
            name: Arc::from(header.key),
            value: header.value.map(Bytes::copy_from_slice).unwrap_or_default(),
        },
        Err(_) => Header::new("\u{fffd}", ""),
    }
}
