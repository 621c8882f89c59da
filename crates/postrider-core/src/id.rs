//! Identities as types, so that a key cannot be passed where a topic is meant.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use uuid::Uuid;

/// What consumers recognise a duplicate by. Made once, at emit, and never again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct EventId(ByteString);

impl EventId {
    /// A new UUIDv7: ids of one process rise strictly.
    pub fn generate() -> Self {
        Uuid::now_v7().into()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Uuid> for EventId {
    fn from(id: Uuid) -> Self {
        Self(id.hyphenated().to_string().into())
    }
}

/// The primary key of an outbox row, in the type its column has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordId {
    Uuid(Uuid),
    Int(i64),
    Text(Box<str>),
}

/// In the type that the text looks like; a store compares it as its column's type.
impl From<&str> for RecordId {
    fn from(text: &str) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Int(number);
        }
        match text.parse() {
            Ok(uuid) => Self::Uuid(uuid),
            Err(_) => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(id) => write!(f, "{id}"),
            Self::Int(id) => write!(f, "{id}"),
            Self::Text(id) => f.write_str(id),
        }
    }
}

/// Events with the same key keep their order. Ours are text; other producers' keys may be any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageKey(Bytes);

impl MessageKey {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&[u8]> for MessageKey {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl From<ByteString> for MessageKey {
    fn from(text: ByteString) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&str> for MessageKey {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for MessageKey {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Where a message goes. Cheap to clone: a batch names few topics many times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(ByteString);

impl Topic {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text_newtype {
    ($($name:ident),*) => {$(
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<ByteString> for $name {
            fn from(text: ByteString) -> Self {
                Self(text)
            }
        }
        impl From<$name> for ByteString {
            fn from(name: $name) -> Self {
                name.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
text_newtype!(EventId, Topic);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_rise() {
        let ids: Vec<EventId> = (0..1000).map(|_| EventId::generate()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
