//! Whether a text is JSON that the database will take, found out before it is sent: a statement that
//! fails takes the caller's transaction with it.

use serde_json::value::RawValue;

/// Digits, exponents and nesting up to here are within the database's own limits.
const NUMBER_BYTES_MAX: usize = 4000;
const EXPONENT_MAX: u32 = 4000;
const DEPTH_MAX: u32 = 1000;

/// How a column keeps JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The text as it came.
    AsText,
    /// Taken apart into strings and numbers, which have limits of their own.
    Parsed,
}

/// The text of a JSON value, or why the column would refuse it.
pub(crate) fn check(text: &[u8], kept: Kept) -> Result<&str, String> {
    let value: &RawValue =
        serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
    let bytes = value.get().as_bytes();
    let (mut at, mut depth) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        depth = match byte {
            b'{' | b'[' if depth == DEPTH_MAX => {
                return Err(format!("nested over {DEPTH_MAX} deep"));
            }
            b'{' | b'[' => depth + 1,
            b'}' | b']' => depth - 1,
            _ => depth,
        };
        at = match byte {
            b'"' => string_end(bytes, at, kept)?,
            b'-' | b'0'..=b'9' if kept == Kept::Parsed => number_end(bytes, at)?,
            _ => at + 1,
        };
    }
    Ok(value.get())
}

fn string_end(bytes: &[u8], start: usize, kept: Kept) -> Result<usize, String> {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            None => return Err("ends within a string".into()),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') if kept == Kept::Parsed && bytes.get(at + 1) == Some(&b'u') => {
                at = unicode_end(bytes, at)?;
            }
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// `\u0000` has no place in text, and half a surrogate pair is no character.
fn unicode_end(bytes: &[u8], at: usize) -> Result<usize, String> {
    match code(bytes, at) {
        Some(0) => Err(r"has \u0000, which the column cannot hold".into()),
        Some(0xd800..=0xdbff) if matches!(code(bytes, at + 6), Some(0xdc00..=0xdfff)) => {
            Ok(at + 12)
        }
        Some(0xd800..=0xdfff) | None => Err("has half of a surrogate pair".into()),
        Some(_) => Ok(at + 6),
    }
}

fn code(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn number_end(bytes: &[u8], start: usize) -> Result<usize, String> {
    let length = bytes[start..]
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        .count();
    let number = &bytes[start..start + length];
    let exponent = number
        .iter()
        .position(|byte| matches!(byte, b'e' | b'E'))
        .map(|e| &number[e + 1..]);
    let fits = exponent.is_none_or(|digits| {
        let digits = std::str::from_utf8(digits)
            .unwrap_or_default()
            .trim_start_matches(['+', '-']);
        digits
            .parse()
            .is_ok_and(|exponent: u32| exponent <= EXPONENT_MAX)
    });
    if fits && length <= NUMBER_BYTES_MAX {
        return Ok(start + length);
    }
    Err("has a number out of the column's range".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_refuses_is_refused_for_it_alone() {
        let many = "9".repeat(5000);
        for bad in [
            r#"{"a":"\u0000"}"#,
            r#"["\ud800"]"#,
            r#"["\udc00\ud800"]"#,
            "1e5000",
            &many,
        ] {
            assert_eq!(check(bad.as_bytes(), Kept::AsText), Ok(bad));
            assert!(check(bad.as_bytes(), Kept::Parsed).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_jsonb_takes_is_taken() {
        for good in [
            r#"{"a":"\\u0000 \ud83d\ude00 \u0001","b":[-1.5e+10,0]}"#,
            "null",
            r#""[\"""#,
        ] {
            assert_eq!(check(good.as_bytes(), Kept::Parsed), Ok(good));
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = format!("{}{}", "[".repeat(1001), "]".repeat(1001));
        for bad in [&b"{"[..], b"", b"{} x", b"\"\xff\"", deep.as_bytes()] {
            assert!(check(bad, Kept::AsText).is_err());
        }
    }
}
