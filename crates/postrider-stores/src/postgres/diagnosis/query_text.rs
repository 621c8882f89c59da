//! Other people's queries, short and without the values in them.

const CHARS_MAX: usize = 200;

/// The query's beginning on one line, with `?` for every literal and without comments. A literal that the server has cut
/// off ends it.
pub(super) fn without_literals(query: &str) -> String {
    let mut text = String::new();
    let mut rest = query;
    while let Some(c) = rest.chars().next() {
        let literal = literal_end(rest, text.chars().next_back());
        if let Some(end) = literal {
            text.push('?');
            rest = rest.get(end..).unwrap_or_default();
        } else if let Some(end) = comment_end(rest) {
            text.push(' ');
            rest = rest.get(end..).unwrap_or_default();
        } else if c == '"' {
            let end = quoted_end(rest, '"', false);
            text.push_str(rest.get(..end).unwrap_or(rest));
            rest = rest.get(end..).unwrap_or_default();
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(CHARS_MAX).collect()
}

/// Where a string, a dollar-quoted string or a number ends that the text begins with.
fn literal_end(text: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
    let first = text.chars().next()?;
    if first == '\'' {
        // After an E the backslash escapes; elsewhere it may, by an old setting. Too much is left out rather than too little.
        return Some(quoted_end(text, '\'', true));
    }
    if first == '$' && !in_word {
        let tag_end = text[1..].find('$')? + 2;
        let tag = &text[..tag_end];
        let named = |c: char| c.is_alphanumeric() || c == '_';
        let starts_a_name = |c: char| c.is_alphabetic() || c == '_' || c == '$';
        if !tag[1..tag_end - 1].chars().all(named) || !tag[1..].starts_with(starts_a_name) {
            return None;
        }
        let end = text[tag_end..].find(tag).map(|at| tag_end + at + tag_end);
        return Some(end.unwrap_or(text.len()));
    }
    if first.is_ascii_digit() && !in_word {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
        return Some(end.unwrap_or(text.len()));
    }
    None
}

fn comment_end(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |at| at + 2));
    }
    None
}

/// Behind the closing quote; two of them stand for one.
fn quoted_end(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            chars.next();
        } else if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
            } else {
                return at + quote.len_utf8();
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out_and_the_shape_stays() {
        for (query, expected) in [
            ("SELECT 1", "SELECT ?"),
            (
                "UPDATE t1 SET a = 'it''s', b = 4.5e3\n WHERE id = $1",
                "UPDATE t1 SET a = ?, b = ? WHERE id = $1",
            ),
            (
                "SELECT E'a\\'b', x FROM y -- 'secret'\n",
                "SELECT E?, x FROM y",
            ),
            ("SELECT $tag$ it's $$ secret $tag$, $$more$$", "SELECT ?, ?"),
            (
                "/* token 'x' */ SELECT \"col 'x' 7\"",
                "SELECT \"col 'x' 7\"",
            ),
            (
                "INSERT INTO t VALUES ('cut off by the serv",
                "INSERT INTO t VALUES (?",
            ),
            ("SELECT 'ünï', é2", "SELECT ?, é2"),
            ("SELECT $", "SELECT $"),
            ("", ""),
        ] {
            assert_eq!(without_literals(query), expected);
        }
        assert_eq!(
            without_literals(&"x ".repeat(1000)).chars().count(),
            CHARS_MAX
        );
    }
}
