//! Records that claims come to next, and that somebody else has locked: with order per key claims wait for them, without it
//! they pass them over. Who locks a row leaves the number of its transaction there, and holds a lock on that number until it
//! ends. Where several lock a row at once, their numbers are elsewhere, and only what waits for them shows.

use postrider_core::layout::State;
use postrider_core::{Finding, Level, text};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::patient;
use crate::postgres::Inner;
use crate::postgres::connect::relay_name;
use crate::postgres::error::code;
use crate::postgres::outbox::{Ready, writer};
use crate::sql::statement::literal;

/// How far down the line it is looked.
const LOOKED_AT: u32 = 1_000;
const ID_BYTES_MAX: usize = 100;

/// What one transaction holds.
#[derive(Debug)]
pub(super) struct Held {
    /// The session, unless the transaction is prepared and has none.
    pub(super) pid: Option<i32>,
    prepared: Option<Prepared>,
    records: i64,
    first: String,
}

#[derive(Debug)]
struct Prepared {
    name: String,
    owner: String,
    age_secs: i64,
}

impl Held {
    pub(super) fn said(&self) -> String {
        let first = text::bounded(&self.first, ID_BYTES_MAX);
        let more = match self.records {
            1 => String::new(),
            records => format!(" and {} more", records - 1),
        };
        format!("holds record {first}{more} that claims wait for or pass over")
    }

    /// What is to be said of a prepared transaction. Of sessions there is more to say.
    pub(super) fn prepared(&self) -> Option<Finding> {
        let Prepared {
            name,
            owner,
            age_secs,
        } = self.prepared.as_ref()?;
        let message = format!(
            "was prepared by {owner} {age_secs} s ago and {}. No session has it any more, so that it never ends by itself",
            self.said()
        );
        let quoted = literal(name);
        let remedy = format!(
            "COMMIT PREPARED {quoted} or ROLLBACK PREPARED {quoted}, as its coordinator decided"
        );
        let subject = format!("prepared transaction {}", text::bounded(name, ID_BYTES_MAX));
        Some(Finding::new(Level::Error, subject, message).remedy(remedy))
    }
}

/// $1 table, $2 name → the sessions of relays: known by their name, and with order per key by their locks on lanes. They hold
/// what they publish.
pub(super) const RELAYS: &str = "
  SELECT a.pid FROM pg_catalog.pg_stat_activity AS a WHERE a.application_name = $2
  UNION ALL
  SELECT k.pid FROM pg_catalog.pg_locks AS k WHERE k.pid IS NOT NULL AND k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
    AND k.classid = (hashtext('postrider ' || to_regclass($1)::oid::text)::int8 & 4294967295)::oid";

const HOLDERS: &str = "
SELECT l.pid, p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::int8, count(*), min(h.n),
  (array_agg(h.id ORDER BY h.n))[1]
FROM (SELECT row_number() OVER () AS n, f.id, f.holder FROM (HEAD) AS f) AS h
LEFT JOIN pg_catalog.pg_locks AS l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = h.holder AND l.pid IS NOT NULL
LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = h.holder
WHERE p.gid IS NOT NULL OR l.pid IS NOT NULL AND l.pid NOT IN (RELAYS)
GROUP BY 1, 2, 3, 4 ORDER BY 6 LIMIT 5";

/// A look that takes too long finds nothing: what makes it long, a missing index, is said elsewhere.
pub(super) async fn records(inner: &Inner, ready: &Ready) -> Result<Vec<Held>, sqlx::Error> {
    let layout = &inner.options.layout;
    if matches!(layout.state, State::Append { .. }) {
        return Ok(Vec::new());
    }
    let list = format!(
        "o.{}::text AS id, o.xmax AS holder",
        layout.columns.id.quoted()
    );
    let head = writer(&inner.options, &ready.table).first_in_line(&list, LOOKED_AT);
    let mut tx = patient(inner).await?;
    let question = HOLDERS.replace("RELAYS", RELAYS).replace("HEAD", &head);
    let found = sqlx::query(AssertSqlSafe(question))
        .persistent(false)
        .bind(layout.table.quoted())
        .bind(relay_name(&inner.options.name))
        .fetch_all(tx.connection())
        .await;
    let rows = match found {
        Err(error) if code(&error).as_deref() == Some("57014") => Vec::new(),
        found => found?,
    };
    tx.rollback().await?;
    rows.iter().map(held).collect()
}

fn held(row: &PgRow) -> Result<Held, sqlx::Error> {
    let name: Option<String> = row.try_get(1)?;
    let owner: Option<String> = row.try_get(2)?;
    let age: Option<i64> = row.try_get(3)?;
    let first: Option<String> = row.try_get(6)?;
    Ok(Held {
        pid: row.try_get(0)?,
        prepared: name.map(|name| Prepared {
            name,
            owner: owner.unwrap_or_default(),
            age_secs: age.unwrap_or_default(),
        }),
        records: row.try_get(4)?,
        first: first.unwrap_or_else(|| "without an id".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_transaction_is_named_with_how_to_end_it() {
        let mut held = Held {
            pid: None,
            prepared: Some(Prepared {
                name: "it's held".into(),
                owner: "shop".into(),
                age_secs: 70,
            }),
            records: 3,
            first: "17".into(),
        };
        let finding = held.prepared().unwrap();
        assert!(finding.message.contains("by shop 70 s ago"), "{finding:?}");
        assert!(
            finding.message.contains("record 17 and 2 more"),
            "{finding:?}"
        );
        let remedy = finding.remedy.unwrap();
        assert!(
            remedy.contains("ROLLBACK PREPARED 'it''s held'"),
            "{remedy}"
        );
        held.prepared = None;
        assert_eq!(held.prepared(), None, "a session says more of itself");
    }
}
