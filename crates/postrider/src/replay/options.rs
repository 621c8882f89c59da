//! What is sent again, where to and how fast.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use postrider_core::operate::{Cursor, RecordFilter};
use postrider_core::{Backoff, Topic};

/// What a replay does. The default sends everything that is published and stored.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// Which records; their state is always published.
    pub filter: RecordFilter,
    /// Where all of them go; otherwise each goes where it went.
    pub to_topic: Option<Topic>,
    /// Most records a second.
    pub rate: Option<NonZeroU32>,
    /// Where an earlier replay of the same filter ended.
    pub from: Option<Resume>,
    /// Leaves out records that the broker or the router refuses, instead of ending there.
    pub skip: bool,
    /// Most records at a time; fewer where they are large.
    pub batch: u32,
    /// How long the broker may take for a batch.
    pub publish_timeout: Duration,
    /// Between tries while broker or database do not answer, and of records that failed.
    pub backoff: Backoff,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            filter: RecordFilter::default(),
            to_topic: None,
            rate: None,
            from: None,
            skip: false,
            batch: 1_000,
            publish_timeout: Duration::from_secs(30),
            backoff: Backoff::new(Duration::from_millis(250), Duration::from_secs(10)),
        }
    }
}

/// In words, for the audit table.
impl fmt::Display for ReplayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Ids that are named.
        const IDS: usize = 10;
        let filter = &self.filter;
        let mut words: Vec<String> = Vec::new();
        words.extend(filter.since.map(|since| format!("since {since}")));
        words.extend(filter.until.map(|until| format!("until {until}")));
        words.extend(filter.event_type.as_ref().map(|it| format!("type {it}")));
        words.extend(filter.key.as_ref().map(|key| format!("key {key}")));
        words.extend(filter.topic.as_ref().map(|it| format!("topic {it}")));
        words.extend(filter.ids.iter().take(IDS).map(|id| format!("id {id}")));
        if filter.ids.len() > IDS {
            words.push(format!("and {} more ids", filter.ids.len() - IDS));
        }
        words.extend(self.to_topic.as_ref().map(|it| format!("to topic {it}")));
        words.extend(self.rate.map(|rate| format!("at {rate} a second")));
        words.extend(self.from.as_ref().map(|from| format!("from {from}")));
        f.write_str(&words.join(", "))
    }
}

/// Where a replay goes on. Written as `<records before it>:<cursor>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Records of the filter that lie before the cursor.
    pub passed: u64,
    pub cursor: Cursor,
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.passed, self.cursor.0)
    }
}

impl FromStr for Resume {
    type Err = BadResume;

    fn from_str(text: &str) -> Result<Self, BadResume> {
        let (passed, cursor) = text.split_once(':').ok_or(BadResume)?;
        if cursor.is_empty() {
            return Err(BadResume);
        }
        Ok(Self {
            passed: passed.parse().map_err(|_| BadResume)?,
            cursor: Cursor(cursor.into()),
        })
    }
}

/// The text is no [`Resume`].
#[derive(Debug, thiserror::Error)]
#[error("this is not where a replay ended; copy it from the line that the replay printed")]
pub struct BadResume;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_go_on_is_read_as_it_was_written() {
        let resume = Resume {
            passed: 1_500,
            cursor: Cursor("2026-11-15T09:30:00Z:7".into()),
        };
        assert_eq!(resume.to_string().parse::<Resume>().unwrap(), resume);
        for text in ["", "7", "x:y", "7:", ":y", "-1:y"] {
            assert!(text.parse::<Resume>().is_err(), "{text}");
        }
    }
}
