//! What librdkafka says, in our log.

use rdkafka::config::RDKafkaLogLevel;

/// Lines of these facilities are known and harmless: that a setting is experimental or not for this kind of client,
/// and that a refused message ends the producer.
const EXPECTED: [&str; 2] = ["CONFWARN", "FATAL"];

pub(super) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning
            if !EXPECTED.contains(&facility) =>
        {
            tracing::warn!(target: "librdkafka", facility, "{line}");
        }
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}
