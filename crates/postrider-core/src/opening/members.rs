//! The members of a JSON object, found in one pass and left as they are written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::OpenError;
use crate::text::json_error;

/// No envelope has more members; what a larger object has further on is not kept.
const MEMBERS_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Members<'a> {
    found: Vec<(Cow<'a, str>, &'a RawValue)>,
    too_many: bool,
}

/// Reads a body that should be an envelope of the `expected` kind.
pub(super) fn read<'a>(body: &'a [u8], expected: &'static str) -> Result<Members<'a>, OpenError> {
    let not_json = |error: serde_json::Error| OpenError::NotJson {
        reason: json_error(&error),
    };
    let not_object = |reason: &str| {
        Err(OpenError::NotEnvelope {
            expected,
            reason: reason.into(),
        })
    };
    let kind = match body.trim_ascii_start().first() {
        Some(b'{') => {
            let members: Members<'a> = serde_json::from_slice(body).map_err(not_json)?;
            if members.too_many {
                return not_object("it has more than 128 members");
            }
            return Ok(members);
        }
        None => return not_object("it is empty"),
        Some(b'[') => "it is an array",
        Some(b'"') => "it is a string",
        Some(b'n') => "it is null",
        Some(b't' | b'f') => "it is a boolean",
        Some(_) => "it is a number",
    };
    serde_json::from_slice::<IgnoredAny>(body).map_err(not_json)?;
    not_object(kind)
}

impl<'a> Members<'a> {
    /// A member that may be absent or null.
    pub(super) fn optional(&self, name: &str) -> Result<Option<&'a RawValue>, String> {
        let mut values = self.found.iter().filter(|(found, _)| found == name);
        let value = values.next();
        match values.next() {
            Some(_) => Err(format!("it has {name} twice")),
            None => Ok(value.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")),
        }
    }

    /// A member that must be there, whatever it is.
    pub(super) fn required(&self, name: &str) -> Result<&'a RawValue, String> {
        let absent = || format!("it has no {name}");
        self.optional(name)?
            .or_else(|| {
                let (_, null) = self.found.iter().find(|(found, _)| found == name)?;
                Some(null)
            })
            .ok_or_else(absent)
    }

    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        let raw = self.required(name)?;
        match serde_json::from_str::<String>(raw.get()) {
            Ok(text) if !text.is_empty() => Ok(text),
            Ok(_) => Err(format!("its {name} is empty")),
            Err(_) => Err(format!("its {name} is not a string")),
        }
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        let Some(raw) = self.optional(name)? else {
            return Ok(None);
        };
        serde_json::from_str(raw.get())
            .map(|text: String| Some(text).filter(|text| !text.is_empty()))
            .map_err(|_| format!("its {name} is not a string"))
    }

    pub(super) fn integer(&self, name: &str) -> Result<i32, String> {
        let raw = self.required(name)?;
        serde_json::from_str(raw.get()).map_err(|_| format!("its {name} is not an integer"))
    }

    pub(super) fn object(
        &self,
        name: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, String> {
        let raw = self.required(name)?;
        serde_json::from_str(raw.get()).map_err(|_| format!("its {name} is not an object"))
    }

    /// Whether there is no member but these.
    pub(super) fn has_only(&self, names: &[&str]) -> bool {
        self.beyond(names).next().is_none()
    }

    /// The members other than these.
    pub(super) fn beyond(&self, names: &[&str]) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.found
            .iter()
            .filter(|(found, _)| !names.contains(&&**found))
            .map(|(name, raw)| (&**name, *raw))
    }
}

/// A member's name, borrowed where it is written without escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members {
                    found: Vec::new(),
                    too_many: false,
                };
                while members.found.len() < MEMBERS_MAX {
                    let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()?
                    else {
                        return Ok(members);
                    };
                    members.found.push((name, value));
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    members.too_many = true;
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Walk)
    }
}
