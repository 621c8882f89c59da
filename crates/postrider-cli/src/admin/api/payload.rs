//! A record's payload, for those who may read it. Every look is written down first.

use axum::Json;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postrider::core::operate::{Act, RecordFilter};
use postrider::core::text::short;
use serde_json::{Value, json};

use super::super::access::Who;
use super::super::limits;
use super::super::outbox::OfRecord;
use super::super::refused::Refused;
use super::record::stored;

const ACTION: &str = "read payload";

pub(super) async fn payload(
    OfRecord(outbox, id): OfRecord,
    who: Who,
) -> Result<Json<Value>, Refused> {
    let found = stored(&outbox, id).await?;
    if found.payload_bytes > Some(limits::PAYLOAD_READ_MAX) {
        let error = "the payload is over 64 MiB, too large to be shown";
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, error));
    }
    let act = Act {
        action: ACTION.into(),
        record: Some(found.id.clone()),
        detail: None,
    };
    outbox.ask(outbox.store.note(&who.actor(), &act)).await?;
    tracing::info!(
        outbox = outbox.name(),
        by = &*who.name,
        action = ACTION,
        record_id = &*short(&found.id.to_string(), limits::LISTED_BYTES_MAX),
        "admin: a payload was read"
    );
    let filter = RecordFilter {
        ids: vec![found.id],
        ..RecordFilter::default()
    };
    let whole = outbox.ask(outbox.store.read(&filter, None, 1)).await?;
    let gone = || Refused::not_found("the record has gone meanwhile");
    let record = whole.items.into_iter().next().ok_or_else(gone)?;
    Ok(Json(shown(record.payload.as_deref())))
}

/// As text where it is UTF-8.
fn shown(payload: Option<&[u8]>) -> Value {
    let Some(payload) = payload else {
        return json!({ "encoding": "text", "payload": null, "truncated": false });
    };
    let truncated = payload.len() > limits::PAYLOAD_BYTES_MAX;
    let (encoding, text) = match std::str::from_utf8(payload) {
        Ok(text) => {
            let end = text.floor_char_boundary(limits::PAYLOAD_BYTES_MAX);
            ("text", text[..end].to_owned())
        }
        Err(_) => {
            let end = payload.len().min(limits::PAYLOAD_BYTES_MAX);
            ("base64", STANDARD.encode(&payload[..end]))
        }
    };
    json!({ "encoding": encoding, "payload": text, "truncated": truncated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_it_is_and_other_bytes_in_base64() {
        let text = shown(Some("é\0\n".as_bytes()));
        assert_eq!(
            text,
            json!({ "encoding": "text", "payload": "é\0\n", "truncated": false })
        );
        let bytes = shown(Some(&[0xff, 0, 1]));
        assert_eq!(
            (&bytes["encoding"], &bytes["payload"]),
            (&json!("base64"), &json!("/wAB"))
        );
        assert_eq!(shown(None)["payload"], Value::Null);
    }

    #[test]
    fn what_is_over_a_mebibyte_is_cut_at_a_character() {
        let long = "é".repeat(1 << 20);
        let cut = shown(Some(format!("x{long}").as_bytes()));
        assert_eq!(cut["truncated"], true);
        assert_eq!(cut["payload"].as_str().unwrap().len(), (1 << 20) - 1);
        let exact = shown(Some(&vec![b'x'; 1 << 20]));
        assert_eq!(exact["truncated"], false);
        let bytes = shown(Some(&vec![0xff; (1 << 20) + 1]));
        assert_eq!(bytes["truncated"], true);
    }
}
