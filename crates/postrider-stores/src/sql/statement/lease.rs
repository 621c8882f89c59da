//! Taking records by a status and the time of the claim, where rows can be locked.

use postrider_core::OnDead;
use postrider_core::layout::{ClaimMode, Identifier, State};

use super::{Lease, Writer, is_one_of, literal, micros, of};
use crate::sql::selection::Selection;
use crate::sql::table::Kind;

impl Writer<'_> {
    pub(super) fn claim_by_lease(&self, selection: &Selection) -> String {
        let State::Status {
            column,
            publishing,
            last_attempt_at,
            ..
        } = &self.layout.state
        else {
            return String::new();
        };
        let (head, chosen) = match self.ordered_key() {
            Some(_) => (Some(self.head()), self.chosen_in_order()),
            None => (None, self.chosen_unordered()),
        };
        let head = head.map(|head| format!("head AS MATERIALIZED (\n{head})"));
        let update = format!(
            "UPDATE {table} AS o SET {status} = {publishing}, {time} = {now}\n\
             WHERE {chosen}\n\
             RETURNING {list}, {token} AS token",
            table = self.name(),
            status = column.quoted(),
            publishing = literal(publishing),
            time = last_attempt_at.quoted(),
            now = self.dialect.now,
            list = selection.list(),
            token = (self.dialect.cast)(&of("o", last_attempt_at), "timestamptz"),
        );
        match (self.claims_come_unsorted(), head) {
            (true, None) => update,
            (true, Some(head)) => {
                format!("WITH {head}\n{update}, (SELECT count(*) FROM head) AS seen")
            }
            (false, head) => self.sorted(selection, head, &update),
        }
    }

    /// Whether who claims can put records in order: by time, then by an id that is compared alike everywhere. For the server to
    /// sort whole rows is a tenth of a claim.
    fn claims_come_unsorted(&self) -> bool {
        let columns = &self.layout.columns;
        let by_time = self.layout.order == [columns.created_at.clone(), columns.id.clone()];
        by_time
            && self.table.kind(&columns.created_at) == Kind::Time
            && matches!(self.table.kind(&columns.id), Kind::Uuid | Kind::Int)
    }

    fn sorted(&self, selection: &Selection, head: Option<String>, update: &str) -> String {
        let order: Vec<String> = (0..)
            .zip(&self.layout.order)
            .map(|(n, column): (usize, _)| format!("{} AS s{n}", of("o", column)))
            .collect();
        let sort: Vec<String> = (0..order.len()).map(|n| format!("s{n}")).collect();
        let (head, seen, claimed) = match head {
            Some(head) => (
                format!("{head},\n"),
                ", seen",
                "(SELECT count(*) AS seen FROM head) AS h LEFT JOIN claimed ON true",
            ),
            None => (String::new(), "", "claimed"),
        };
        format!(
            "WITH {head}claimed AS (\n{update}, {order})\n\
             SELECT {names}, token{seen} FROM {claimed} ORDER BY {sort}",
            order = order.join(", "),
            names = selection.names(),
            sort = sort.join(", "),
        )
    }

    pub(super) fn lease(&self, selection: &Selection) -> Option<Lease> {
        let State::Status {
            last_attempt_at, ..
        } = &self.layout.state
        else {
            return None;
        };
        if self.layout.claim != ClaimMode::Lease || !self.dialect.locks_rows {
            return None;
        }
        // The limit of the claim is its first parameter, and is not wanted here.
        let looked_at = |_| {
            let head = self.head();
            format!("SELECT count(*) AS seen FROM (\n{head}) AS h WHERE $1::int8 IS NOT NULL")
        };
        Some(Lease {
            unsorted: self.claims_come_unsorted(),
            looked_at: self.ordered_key().map(looked_at).map(Into::into),
            choose: self.choose(selection).into(),
            token_of: format!(
                "SELECT {} AS token FROM {} AS o WHERE {} LIMIT 1",
                (self.dialect.cast)(&of("o", last_attempt_at), "timestamptz"),
                self.name(),
                (self.dialect.among)(&self.id("o"), 1, &self.id_list()),
            )
            .into(),
        })
    }

    /// The records that a claim would take, by what their rows say, locked.
    fn choose(&self, selection: &Selection) -> String {
        format!(
            "SELECT {}\nFROM {} AS o\nWHERE {}\nORDER BY {}\nLIMIT $1\n{}",
            selection.list(),
            self.name(),
            self.claimable(),
            self.order("o"),
            self.lock()
        )
    }

    /// The columns whose values a claim changes.
    #[cfg(feature = "postgres")]
    pub(crate) fn changed_by_claim(&self) -> Vec<&Identifier> {
        match &self.layout.state {
            State::Status {
                column,
                last_attempt_at,
                ..
            } if self.layout.claim == ClaimMode::Lease => {
                vec![column, last_attempt_at]
            }
            _ => Vec::new(),
        }
    }

    fn chosen_unordered(&self) -> String {
        let id = self.id("o");
        (self.dialect.among_selected)(
            &id,
            &format!(
                "SELECT {id}\nFROM {} AS o\nWHERE {}\nORDER BY {}\nLIMIT $1\n{}\n",
                self.name(),
                self.claimable(),
                self.order("o"),
                self.lock(),
            ),
        )
    }

    /// The oldest records that are not published, whatever their state: $7 of them. What blocks a key comes before
    /// what it blocks, so both are in there, and no index has to hold a status. An index that does makes every claim
    /// write to every index of the table, for each record.
    fn head(&self) -> String {
        let State::Status {
            column,
            retry_at,
            last_attempt_at,
            ..
        } = &self.layout.state
        else {
            return String::new();
        };
        let columns = &self.layout.columns;
        let mut read: Vec<&Identifier> = vec![
            &columns.id,
            column,
            retry_at,
            last_attempt_at,
            &columns.created_at,
        ];
        read.extend(&self.layout.order);
        let mut seen: Vec<String> = Vec::new();
        for column in read {
            let column = of("o", column);
            if !seen.contains(&column) {
                seen.push(column);
            }
        }
        let mut conditions = vec![self.unsettled_by_row("o")];
        conditions.extend(self.has_id("o"));
        conditions.extend(self.in_range("o"));
        conditions.extend(self.in_lanes());
        format!(
            "SELECT {}, {} AS token\nFROM {} AS o\nWHERE {}\nORDER BY {}\nLIMIT $7",
            seen.join(", "),
            self.token("o"),
            self.name(),
            conditions.join("\nAND "),
            self.order("o"),
        )
    }

    /// The lanes are locked, so no other claim is about. Whoever else changed a record meanwhile is waited for, and
    /// the record is looked at again.
    fn chosen_in_order(&self) -> String {
        let mut stuck = vec![format!(
            "SELECT b.token FROM head AS b WHERE {}",
            self.blocks("b")
        )];
        stuck.extend(self.left_alone());
        let chosen = format!(
            "SELECT {}\nFROM head AS c\nWHERE {}\nAND {}\nORDER BY {}\nLIMIT $1\n",
            self.id("c"),
            self.due("c"),
            self.not_stuck("c.token", stuck),
            self.order("c"),
        );
        let among = (self.dialect.among_selected)(&self.id("o"), &chosen);
        let still = self.by_id(self.pending("o"));
        format!("{among}\nAND {still}\nAND {}", self.due("o"))
    }

    /// A record that nobody may pass who has its key: held, waiting for its retry time, or dead where that parks.
    pub(super) fn blocks(&self, alias: &str) -> String {
        let State::Status {
            column,
            failed,
            publishing,
            dead,
            retry_at,
            ..
        } = &self.layout.state
        else {
            return "false".into();
        };
        let (status, retry_at) = (of(alias, column), of(alias, retry_at));
        let dead = match self.rules.on_dead {
            OnDead::Park => format!(" OR {status} = {}", literal(dead)),
            OnDead::Skip => String::new(),
        };
        format!(
            "({status} = {} AND {} OR {status} = {} AND {retry_at} > {}{dead})",
            literal(publishing),
            self.held(alias),
            literal(failed),
            self.dialect.now,
        )
    }

    /// Nobody's now, or nobody's any more, and not before its time.
    ///
    /// A new record's time is by default when its transaction began, which may be after this claim's did. It is
    /// due all the same: a later record of its key, from a transaction that began earlier and then waited for the
    /// key, would overtake it.
    pub(super) fn due(&self, alias: &str) -> String {
        let State::Status {
            column,
            pending,
            failed,
            publishing,
            retry_at,
            ..
        } = &self.layout.state
        else {
            return "true".into();
        };
        let status = of(alias, column);
        let retry_at = of(alias, retry_at);
        format!(
            "({waiting} AND ({retry_at} IS NULL OR {retry_at} <= {now} \
             OR {status} = {pending} AND {retry_at} <= {created_at})\n  \
             OR {status} = {publishing} AND NOT ({held}))",
            waiting = is_one_of(&status, &[pending, failed]),
            pending = literal(pending),
            created_at = of(alias, &self.layout.columns.created_at),
            now = self.dialect.now,
            publishing = literal(publishing),
            held = self.held(alias),
        )
    }

    /// Whether a record that is being published is still leased. Without a time nobody holds it.
    fn held(&self, alias: &str) -> String {
        let State::Status {
            last_attempt_at, ..
        } = &self.layout.state
        else {
            return "false".into();
        };
        let claimed_at = of(alias, last_attempt_at);
        let lease = micros(self.rules.lease);
        let oldest = (self.dialect.after)(self.dialect.now, &format!("-{lease}"));
        format!("{claimed_at} IS NOT NULL AND {claimed_at} >= {oldest}")
    }

    /// Records that are not published, the dead ones too, by what an index on them may be restricted to.
    pub(super) fn unsettled_by_row(&self, alias: &str) -> String {
        let State::Status {
            column,
            pending,
            failed,
            publishing,
            dead,
            published_at,
            ..
        } = &self.layout.state
        else {
            return self.unpublished(alias);
        };
        match published_at {
            Some(published_at) => format!("{} IS NULL", of(alias, published_at)),
            None => is_one_of(&of(alias, column), &[pending, failed, publishing, dead]),
        }
    }
}
