//! The events of a run: how they are written, and how they are found again in whatever a relay made of them.

use postrider::core::Timestamp;

pub(crate) const PAYLOAD_BYTES: usize = 500;

/// What a run writes: event `i` is the `n`-th of its key, and every writer has keys of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) keys: u64,
}

impl Events {
    pub(crate) fn key(self, i: u64) -> String {
        format!("key-{:05}", i % self.keys)
    }

    pub(crate) fn number(self, i: u64) -> u64 {
        i / self.keys + 1
    }

    /// A JSON object of 500 bytes. The rest is random hexadecimal digits, so that compression finds little.
    pub(crate) fn payload(self, i: u64) -> String {
        let (key, number, now) = (self.key(i), self.number(i), Timestamp::now().as_micros());
        let mut text = format!(r#"{{"k": "{key}", "n": {number}, "i": {i}, "t": {now}, "pad": ""#);
        while text.len() < PAYLOAD_BYTES - 2 {
            text.push_str(&format!("{:016x}", fastrand::u64(..)));
        }
        text.truncate(PAYLOAD_BYTES - 2);
        text.push_str("\"}");
        text
    }
}

/// What a payload says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scanned<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) number: u64,
    pub(crate) i: u64,
}

/// Finds the fields in the bytes, in any order and with any space between, without reading the rest as JSON: reading
/// must cost little beside what is measured.
pub(crate) fn scan(payload: &[u8]) -> Option<Scanned<'_>> {
    let (mut key, mut number, mut i) = (None, None, None);
    let mut at = 0;
    while key.is_none() || number.is_none() || i.is_none() {
        at += payload.get(at..)?.iter().position(|byte| *byte == b'"')?;
        let name = match payload.get(at..at + 3)? {
            [b'"', name, b'"'] => *name,
            _ => {
                at += 1;
                continue;
            }
        };
        let value = payload.get(at + 3..)?.trim_ascii_start();
        let Some(value) = value.strip_prefix(b":") else {
            at += 1;
            continue;
        };
        let value = value.trim_ascii_start();
        match name {
            b'k' => key = Some(quoted(value)?),
            b'n' => number = Some(whole(value)?),
            b'i' => i = Some(whole(value)?),
            _ => {}
        }
        at += 3;
    }
    Some(Scanned {
        key: key?,
        number: number?,
        i: i?,
    })
}

fn quoted(value: &[u8]) -> Option<&[u8]> {
    let value = value.strip_prefix(b"\"")?;
    let end = value.iter().position(|byte| *byte == b'"')?;
    value.get(..end)
}

fn whole(value: &[u8]) -> Option<u64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    let (mut number, mut any) = (0_u64, false);
    for digit in digits {
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
        any = true;
    }
    any.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: Events = Events { keys: 10 };

    #[test]
    fn a_payload_is_json_of_500_bytes_that_says_which_event_it_is() {
        let payload = EVENTS.payload(123);
        assert_eq!(payload.len(), PAYLOAD_BYTES);
        let json: serde_json::Value = serde_json::from_str(&payload).unwrap();
        assert_eq!((&json["k"], &json["n"]), (&"key-00003".into(), &13.into()));
        let scanned = scan(payload.as_bytes()).unwrap();
        assert_eq!((scanned.key, scanned.number), (&b"key-00003"[..], 13));
        assert_eq!(scanned.i, 123);
    }

    #[test]
    fn fields_are_found_in_any_order_and_with_any_space() {
        let text = br#"{ "i" : 5,"pad":"k","n":7 , "t": 1, "k":"key-00005" }"#;
        let scanned = scan(text).unwrap();
        assert_eq!((scanned.key, scanned.number), (&b"key-00005"[..], 7));
        assert_eq!(scanned.i, 5);
    }

    #[test]
    fn what_is_not_one_of_our_events_is_not_taken_for_one() {
        for text in [
            "",
            "\"",
            "{}",
            "null",
            r#"{"k": 5, "n": 1, "i": 2}"#,
            r#"{"k": "a", "n": "x", "i": 2}"#,
            r#"{"k": "a", "n": 99999999999999999999999, "i": 2}"#,
            r#"{"k": "a", "n": 1}"#,
            r#"{"k": "a"#,
        ] {
            assert_eq!(scan(text.as_bytes()), None, "{text}");
        }
    }
}
