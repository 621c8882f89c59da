//! Bounded text: what comes from outside never grows a row or a log line without limit.

use std::error::Error;

/// The longest error text that is stored with a record.
pub const ERROR_BYTES_MAX: usize = 1024;

/// Cuts at a character boundary and marks the cut. NUL, which Postgres text cannot hold, is replaced.
pub fn bounded(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "…";
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
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
    fn nul_is_replaced_and_short_text_is_kept() {
        assert_eq!(bounded("a\0b", 100), "a\u{fffd}b");
        assert_eq!(bounded("abc", 3), "abc");
    }
}
