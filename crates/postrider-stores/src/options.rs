//! How a store works on its outbox, whatever the database.

use std::time::{Duration, Instant};

use postrider_core::operate::OVERDUE;
use postrider_core::{Layout, OnDead};

use crate::sql::dialect::Dialect;
use crate::sql::statement::{Rules, Writer};
use crate::sql::table::Table;

/// How a store works on its outbox.
#[derive(Debug, Clone)]
pub struct Options {
    pub layout: Layout,
    /// What the outbox is called; relays name their sessions by it.
    pub name: String,
    /// A transaction that is open for longer is named in a diagnosis.
    pub overdue: Duration,
    /// A record that failed this often is dead. Must be what the relay's retry policy says.
    pub max_attempts: u32,
    pub on_dead: OnDead,
    /// In lease mode, how long a claim is safe from others.
    pub lease: Duration,
    /// In hold mode, how long a claim may be held. In Postgres the server then ends the session, in
    /// SQLite the claim lapses, so that a relay that hangs does not hold its records for ever.
    pub hold_max: Duration,
    /// Whether every writer leaves the first column of the order to the database's default or to
    /// our `emit`. Then claims in order of keys begin above what is settled or stuck, so that
    /// neither a transaction that is open elsewhere nor what is dead or waits slows them down. If a
    /// writer brings an older value all the same, a later event of its key may overtake it.
    pub order_is_drawn: bool,
}

impl Options {
    pub fn new(layout: Layout) -> Self {
        Self {
            name: layout.table.to_string(),
            overdue: OVERDUE,
            max_attempts: layout.defaults.max_attempts.unwrap_or(25),
            on_dead: OnDead::Park,
            lease: Duration::from_secs(60),
            hold_max: Duration::from_secs(60),
            order_is_drawn: false,
            layout,
        }
    }

    /// When a lease that is taken now is over for its holder: a tenth early, so that nothing is
    /// sent that another may have by then.
    pub(crate) fn lease_lapses(&self, now: Instant) -> Instant {
        const MARGIN_MAX: Duration = Duration::from_secs(5);
        now + self.lease.saturating_sub((self.lease / 10).min(MARGIN_MAX))
    }

    /// With values that make sense of every setting.
    pub(crate) fn checked(self) -> Self {
        Self {
            max_attempts: self.max_attempts.max(1),
            ..self
        }
    }

    pub(crate) fn writer<'a>(&'a self, table: &'a Table, dialect: &'a Dialect) -> Writer<'a> {
        let rules = Rules {
            max_attempts: self.max_attempts,
            on_dead: self.on_dead,
            lease: self.lease,
            order_is_drawn: self.order_is_drawn,
        };
        Writer {
            layout: &self.layout,
            table,
            dialect,
            rules,
        }
    }
}
