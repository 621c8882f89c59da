//! Starting a stream anew in a database that has other transactions than those that its records name.

use std::sync::Arc;

use super::StreamWriter;
use crate::sql::statement::literal;

/// Run one after the other in a transaction that has no number yet and keeps writers and readers out.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    /// Keeps writers out.
    pub lock: Arc<str>,
    /// → snapshot, sequence, the highest position there is. While the transaction has no number, so that its own is not in the snapshot.
    pub look: Arc<str>,
    /// snapshot, a position up to which nothing is taken for read → how many records are unread. Gives these the transaction's own
    /// number, and those that are settled one that every snapshot has.
    pub renumber: Arc<str>,
    /// snapshot, sequence, system identifier or NULL, timeline, the last position that was ever drawn.
    pub start: Arc<str>,
    /// the last position that was ever drawn: what is drawn next lies above it.
    pub forward: Arc<str>,
}

impl StreamWriter<'_> {
    pub(super) fn anchor(&self) -> Anchor {
        Anchor {
            lock: format!("LOCK TABLE {} IN SHARE MODE", self.outbox()).into(),
            look: format!(
                "SELECT pg_current_snapshot()::text, {}, (SELECT coalesce(max({}), 0) FROM {} AS o) FROM {} AS q",
                self.drawn("q"),
                self.position("o"),
                self.outbox(),
                self.sequence()
            )
            .into(),
            renumber: self.renumber().into(),
            forward: format!("SELECT setval({}, $1::int8)", literal(&self.sequence())).into(),
            start: format!(
                "UPDATE {} SET version = version + 1, epoch = epoch + 1, position = 0, \
                 from_snapshot = $1::text::pg_snapshot, from_low = 0, to_snapshot = NULL, to_low = 0, to_high = $5, \
                 next_low = $2, system = $3, timeline = $4, updated_at = now()",
                self.progress()
            )
            .into(),
        }
    }

    /// A record above `to_high` was never read, unless it was copied. Those of this database have such positions, since the sequence came
    /// along; so the numbers of their transactions are never compared with those of the old database.
    fn renumber(&self) -> String {
        format!(
            "WITH p AS MATERIALIZED ({standing}), renumbered AS (\n\
             UPDATE {outbox} AS o SET {xid_column} = CASE WHEN {read} THEN '3'::xid8 ELSE pg_current_xact_id() END\n\
             FROM p WHERE {mine} AND NOT ({read} AND pg_visible_in_snapshot({xid}, $1::text::pg_snapshot))\n\
             RETURNING {xid} = pg_current_xact_id() AS unread)\n\
             SELECT count(*) FILTER (WHERE unread) FROM renumbered",
            standing = self.standing(),
            outbox = self.outbox(),
            xid_column = self.xid.quoted(),
            read = format_args!(
                "({position} <= p.to_high AND {position} > $2::int8 AND {} OR EXISTS (SELECT FROM {} AS c WHERE {}))",
                self.settled(),
                self.troubles(),
                self.is_copy("c", "o"),
                position = self.position("o"),
            ),
            mine = self.mine(),
            xid = self.xid("o"),
        )
    }
}
