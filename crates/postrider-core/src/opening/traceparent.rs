//! W3C trace parents as text: recognised, never made.

/// The text, if it is a whole trace parent: `<version>-<trace id>-<span id>-<flags>` in lower-case hex.
pub(super) fn whole(text: &str) -> Option<&str> {
    let mut parts = text.split('-');
    let version = parts.next().filter(|part| hex(part, 2) && *part != "ff")?;
    trace_id(parts.next()?)?;
    parts
        .next()
        .filter(|part| hex(part, 16) && !all_zero(part))?;
    parts.next().filter(|part| hex(part, 2))?;
    // Later versions may add parts; the first has none.
    (version != "00" || parts.next().is_none()).then_some(text)
}

/// The text, if it is a trace id.
pub(super) fn trace_id(text: &str) -> Option<&str> {
    Some(text).filter(|text| hex(text, 32) && !all_zero(text))
}

fn hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn all_zero(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'0')
}
