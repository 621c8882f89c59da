//! What a log line or a span says of an event is bounded, whatever the event's own texts are.

use std::borrow::Cow;

use postrider_core::text::short;

/// Of each text, as it is written. A line has ten of them at most, beside an error of a kibibyte.
const TEXT_BYTES_MAX: usize = 100;

pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    short(text, TEXT_BYTES_MAX)
}

pub(crate) fn cut_some<T: AsRef<str> + ?Sized>(text: Option<&T>) -> Option<Cow<'_, str>> {
    text.map(|text| cut(text.as_ref()))
}
