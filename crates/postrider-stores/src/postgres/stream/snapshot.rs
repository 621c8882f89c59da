//! A snapshot of transactions, as Postgres writes it: `xmin:xmax:xip,xip`.

use std::fmt;
use std::str::FromStr;

/// Which transactions had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// All before this one had.
    xmin: u64,
    /// This one had not, nor any later one.
    pub(super) xmax: u64,
    /// Those between that had not.
    running: Vec<u64>,
}

impl Snapshot {
    /// Whether a transaction had ended.
    fn has(&self, xid: u64) -> bool {
        xid < self.xmin || xid < self.xmax && !self.running.contains(&xid)
    }

    /// Transactions that ran when this was taken, and have ended in `later`.
    pub(super) fn ended_in(&self, later: &Self) -> Vec<u64> {
        let running = self.running.iter().copied();
        running.filter(|xid| later.has(*xid)).collect()
    }
}

impl FromStr for Snapshot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut number = || parts.next().ok_or(())?.parse().map_err(drop);
        let (xmin, xmax) = (number()?, number()?);
        let running = parts.next().ok_or(())?;
        let each = running.split(',').filter(|xid| !xid.is_empty());
        let running = each
            .map(|xid| xid.parse().map_err(drop))
            .collect::<Result<_, _>>()?;
        let whole = Self {
            xmin,
            xmax,
            running,
        };
        parts.next().is_none().then_some(whole).ok_or(())
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running: Vec<String> = self.running.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}:{}", self.xmin, self.xmax, running.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_written_as_it_was_read() {
        for text in ["3:3:", "748:751:748,750"] {
            let snapshot: Snapshot = text.parse().unwrap();
            assert_eq!(snapshot.to_string(), text);
        }
        for text in ["", "3:3", "3:x:", "3:3:4:5", "-1:3:", "3:4:3;4"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text}");
        }
    }

    #[test]
    fn transactions_end_between_two_snapshots() {
        let of = |text: &str| text.parse::<Snapshot>().unwrap();
        assert_eq!(of("5:9:5,7,8").ended_in(&of("8:12:8,10")), [5, 7]);
        assert_eq!(of("5:9:5,7").ended_in(&of("5:9:5,7")), [0_u64; 0]);
        assert_eq!(of("5:9:5,7").ended_in(&of("20:20:")), [5, 7]);
    }
}
