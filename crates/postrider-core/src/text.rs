//! Bounded text: what comes from outside never grows a row or a log line without limit.

use std::borrow::Cow;
use std::error::Error;

/// The longest error text that is stored with a record.
pub const ERROR_BYTES_MAX: usize = 1024;

/// Cuts at a character boundary and marks the cut. NUL, which Postgres text cannot hold, is replaced.
pub fn bounded(text: &str, bytes_max: usize) -> String {
    // NUL grows when it is replaced. Of a long text only what may stay is looked at.
    let head = &text[..text.floor_char_boundary(bytes_max)];
    let mut found = head.replace('\0', "\u{fffd}");
    if text.len() > bytes_max || found.len() > bytes_max {
        found.truncate(found.floor_char_boundary(bytes_max.saturating_sub(MARK.len())));
        found.push_str(MARK);
    }
    found
}

/// Stands where something was cut off.
const MARK: &str = "…";

/// Text of a row for a log line, a span or a list: cut at a character boundary and marked, so that it takes no more than
/// `bytes_max` bytes when it is written as JSON, without its quotes.
pub fn short(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let (mut written, mut end) = (0, 0);
    for (at, char) in text.char_indices() {
        written += match char {
            '"' | '\\' => 2,
            char if char.is_control() => 6,
            char => char.len_utf8(),
        };
        if written > bytes_max {
            return format!("{}{MARK}", &text[..end]).into();
        }
        if written + MARK.len() <= bytes_max {
            end = at + char.len_utf8();
        }
    }
    text.into()
}

/// An error with its causes, as one bounded line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    // Some libraries repeat the cause in their own text.
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) && text.len() < ERROR_BYTES_MAX {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    bounded(&text, ERROR_BYTES_MAX)
}

/// Where and how JSON is wrong. The library's own text may quote what it found there, and payloads stay out of
/// errors; only the name of a missing field is said.
pub fn json_error(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let text = error.to_string();
    if text.starts_with("missing field") {
        return bounded(&text, ERROR_BYTES_MAX);
    }
    let what = match error.classify() {
        Category::Syntax => "syntax error",
        Category::Eof => "it ends too early",
        Category::Data => "a value does not fit",
        Category::Io => "unreadable",
    };
    format!("{what} at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_at_a_character_boundary() {
        let long = "é".repeat(1000);
        let cut = bounded(&long, 100);
        assert!(cut.len() <= 100);
        assert!(cut.ends_with('…'));
        assert!(cut.starts_with("éé"));
    }

    #[test]
    fn what_is_short_in_json_is_left_as_it_is_and_the_rest_is_cut() {
        assert!(matches!(short("a\"b", 4), Cow::Borrowed("a\"b")));
        for text in ["é".repeat(1000), "\u{1}".repeat(1000), "\"\\x".repeat(1000)] {
            let cut = short(&text, 100);
            assert!(cut.ends_with('…'), "{cut}");
            assert!(cut.len() > 15, "{cut}");
            let json = serde_json::to_string(&cut).unwrap();
            assert!(json.len() <= 102, "{json}");
        }
    }

    #[test]
    fn a_text_that_grows_by_replacing_is_bounded_too() {
        let cut = bounded(&"\0".repeat(1000), 100);
        assert!(cut.len() <= 100 && cut.ends_with('…'), "{cut}");
        assert_eq!(bounded("\0\0", 2), "…");
    }

    #[test]
    fn nul_is_replaced_and_short_text_is_kept() {
        assert_eq!(bounded("a\0b", 100), "a\u{fffd}b");
        assert_eq!(bounded("abc", 3), "abc");
    }
}
