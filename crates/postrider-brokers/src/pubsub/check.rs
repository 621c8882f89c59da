//! What Pub/Sub would refuse, found before it is sent: the service refuses whole requests, so that one bad
//! message would take the others down with it.

use std::collections::HashSet;

use postrider_core::{Message, PublishError, Topic, text};

/// Limits of the service, from its documentation of quotas.
pub(super) const REQUEST_BYTES_MAX: usize = 10_000_000;
pub(super) const REQUEST_MESSAGES_MAX: usize = 1_000;
const ATTRIBUTES_MAX: usize = 100;
const ATTRIBUTE_NAME_BYTES_MAX: usize = 256;
const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;
const ORDERING_KEY_BYTES_MAX: usize = 1_024;
const TOPIC_ID_LENGTHS: std::ops::RangeInclusive<usize> = 3..=255;

pub(super) fn check(message: &Message) -> Result<(), PublishError> {
    let size = message.size();
    if size > REQUEST_BYTES_MAX {
        return Err(PublishError::TooLarge {
            size,
            limit: Some(REQUEST_BYTES_MAX),
        });
    }
    refusal(message).map_or(Ok(()), |reason| {
        Err(PublishError::Refused {
            reason: text::bounded(&reason, text::ERROR_BYTES_MAX),
        })
    })
}

fn refusal(message: &Message) -> Option<String> {
    let empty = message
        .payload
        .as_ref()
        .is_none_or(|payload| payload.is_empty());
    if empty && message.headers.is_empty() {
        return Some("Pub/Sub takes no message with neither body nor attributes".into());
    }
    if let Some(key) = message.key.as_ref().filter(|_| message.ordered) {
        if key.as_str().is_none() {
            return Some("a key that is not UTF-8 cannot be an ordering key".into());
        }
        let size = key.as_bytes().len();
        if size > ORDERING_KEY_BYTES_MAX {
            return Some(format!(
                "key of {size} bytes is over Pub/Sub's limit of {ORDERING_KEY_BYTES_MAX} for ordering keys"
            ));
        }
        if size == 0 {
            return Some("an empty key cannot be an ordering key".into());
        }
    }
    refused_attribute(message)
}

fn refused_attribute(message: &Message) -> Option<String> {
    let count = message.headers.len();
    if count > ATTRIBUTES_MAX {
        return Some(format!(
            "{count} attributes are over Pub/Sub's limit of {ATTRIBUTES_MAX}"
        ));
    }
    let mut names = HashSet::with_capacity(count);
    message.headers.iter().find_map(|header| {
        let (name, value) = (&*header.name, header.value.len());
        if name.is_empty() {
            return Some("an attribute has no name".into());
        }
        if name.len() > ATTRIBUTE_NAME_BYTES_MAX {
            let size = name.len();
            return Some(format!(
                "attribute name of {size} bytes is over Pub/Sub's limit of {ATTRIBUTE_NAME_BYTES_MAX}"
            ));
        }
        if name.starts_with("goog") {
            return Some(format!("attribute {name}: names that begin with goog are reserved"));
        }
        if header.text().is_none() {
            return Some(format!("attribute {name} is not UTF-8, which Pub/Sub needs"));
        }
        if value > ATTRIBUTE_VALUE_BYTES_MAX {
            return Some(format!(
                "attribute {name} has {value} bytes, over Pub/Sub's limit of {ATTRIBUTE_VALUE_BYTES_MAX}"
            ));
        }
        (!names.insert(name)).then(|| format!("attribute {name} is there twice"))
    })
}

/// The full name of a topic that is given in full or by its id.
pub(super) fn topic_name(topic: &Topic, project: &str) -> Result<String, PublishError> {
    let name = topic.as_str();
    let (full, id) = match name.strip_prefix("projects/") {
        Some(rest) => match rest.split_once("/topics/") {
            Some((project, id)) if !project.is_empty() && !project.contains('/') => {
                (name.to_owned(), id)
            }
            _ => return Err(no_topic(name)),
        },
        None => (format!("projects/{project}/topics/{name}"), name),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.~+%".contains(c);
    let begins_well = id.starts_with(|c: char| c.is_ascii_alphabetic()) && !id.starts_with("goog");
    if begins_well && TOPIC_ID_LENGTHS.contains(&id.len()) && id.chars().all(legal) {
        Ok(full)
    } else {
        Err(no_topic(name))
    }
}

fn no_topic(name: &str) -> PublishError {
    let reason = format!(
        "{name:?} is no Pub/Sub topic: an id of 3 to 255 letters, digits and -_.~+% that begins with a \
         letter, or projects/PROJECT/topics/ID"
    );
    PublishError::Refused {
        reason: text::bounded(&reason, text::ERROR_BYTES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use postrider_core::{Header, MessageKey};

    use super::*;

    fn message() -> Message {
        Message {
            topic: Topic::from("orders"),
            key: Some(MessageKey::from("k")),
            ordered: true,
            payload: Some(Bytes::from_static(b"body")),
            headers: vec![Header::new("type", "created")],
        }
    }

    #[test]
    fn what_fits_every_limit_is_taken() {
        check(&message()).unwrap();
        let tombstone = Message {
            payload: None,
            ..message()
        };
        check(&tombstone).unwrap();
        let many = (0..100)
            .map(|n| Header::new(format!("n{n}"), "v".repeat(1024)))
            .collect();
        check(&Message {
            headers: many,
            ..message()
        })
        .unwrap();
    }

    #[test]
    fn each_limit_has_its_reason() {
        let with = |header: Header| Message {
            headers: vec![header],
            ..message()
        };
        let twice = vec![Header::new("a", "1"), Header::new("a", "2")];
        let many = (0..101).map(|n| Header::new(format!("n{n}"), "")).collect();
        let cases = [
            (
                Message {
                    payload: None,
                    headers: vec![],
                    ..message()
                },
                "neither body",
            ),
            (
                Message {
                    payload: Some(Bytes::new()),
                    headers: vec![],
                    ..message()
                },
                "neither body",
            ),
            (
                Message {
                    key: Some(MessageKey::from("k".repeat(1025))),
                    ..message()
                },
                "key of 1025",
            ),
            (
                Message {
                    key: Some(MessageKey::from("")),
                    ..message()
                },
                "empty key",
            ),
            (
                Message {
                    headers: many,
                    ..message()
                },
                "101 attributes",
            ),
            (
                Message {
                    headers: twice,
                    ..message()
                },
                "twice",
            ),
            (with(Header::new("", "v")), "no name"),
            (with(Header::new("n".repeat(257), "v")), "name of 257"),
            (with(Header::new("googclient", "v")), "reserved"),
            (with(Header::new("n", "v".repeat(1025))), "1025 bytes"),
        ];
        for (message, expected) in cases {
            match check(&message) {
                Err(PublishError::Refused { reason }) => {
                    assert!(reason.contains(expected), "{reason}");
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
        let giant = Message {
            payload: Some(vec![0; 10_000_001].into()),
            ..message()
        };
        assert!(matches!(check(&giant), Err(PublishError::TooLarge { .. })));
    }

    #[test]
    fn topics_are_ids_or_full_names() {
        let name = |topic: &str| topic_name(&Topic::from(topic), "p").ok();
        assert_eq!(
            name("pf-domain-events").unwrap(),
            "projects/p/topics/pf-domain-events"
        );
        assert_eq!(
            name("projects/other/topics/abc").unwrap(),
            "projects/other/topics/abc"
        );
        for bad in [
            "",
            "ab",
            "1abc",
            "a b c",
            "a\0b",
            "googlers",
            "projects/p/abc",
            "projects//topics/abc",
        ] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }
}
