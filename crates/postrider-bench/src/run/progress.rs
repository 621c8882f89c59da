//! What a run says while it goes on: what is measured, how far it is, and how long the rest takes.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A line now and then is enough.
const EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    total: usize,
    done: Cell<usize>,
    started: Cell<Instant>,
    said: Cell<Instant>,
    last_count: Cell<Option<(Instant, u64)>>,
    /// Step and subject of what was measured, and how long it took.
    took: RefCell<Vec<(String, String, Duration)>>,
    left: RefCell<Vec<(String, String)>>,
}

impl Progress {
    /// `left`: step and subject of all that is to be measured, in order.
    pub(crate) fn new(left: Vec<(String, String)>) -> Self {
        let now = Instant::now();
        Self {
            total: left.len(),
            done: Cell::new(0),
            started: Cell::new(now),
            said: Cell::new(now),
            last_count: Cell::new(None),
            took: RefCell::new(Vec::new()),
            left: RefCell::new(left.into_iter().rev().collect()),
        }
    }

    pub(crate) fn begin(&self, round: u32, step: &str, subject: &str) {
        let now = Instant::now();
        self.started.set(now);
        self.last_count.set(None);
        let (number, total) = (self.done.get() + 1, self.total);
        eprintln!("[{number}/{total}] round {round}, {step}, {subject}");
        self.said.set(now);
    }

    pub(crate) fn say(&self, text: &str) {
        let secs = self.started.get().elapsed().as_secs_f64();
        eprintln!("    {secs:5.1} s  {text}");
        self.said.set(Instant::now());
    }

    pub(crate) fn say_now_and_then(&self, text: &str) {
        if self.said.get().elapsed() >= EVERY {
            self.say(text);
        }
    }

    /// How many of how many, and the rate since this was last said.
    pub(crate) fn count(&self, there: u64, of: u64) {
        let now = Instant::now();
        let Some((at, before)) = self.last_count.get() else {
            self.last_count.set(Some((now, there)));
            return;
        };
        if at.elapsed() >= EVERY {
            let rate = there.saturating_sub(before) as f64 / at.elapsed().as_secs_f64();
            self.last_count.set(Some((now, there)));
            self.say(&format!("{there} of {of} arrived, {rate:.0}/s"));
        }
    }

    pub(crate) fn end(&self, step: &str, subject: &str, result: &str) {
        let took = self.started.get().elapsed();
        let entry = (step.to_owned(), subject.to_owned(), took);
        self.took.borrow_mut().push(entry);
        self.left.borrow_mut().pop();
        self.done.set(self.done.get() + 1);
        self.say(&format!("{result}  [{} left]", minutes(self.time_left())));
    }

    /// By what the same step took with the same subject, else with any, else a mean.
    fn time_left(&self) -> Duration {
        let took = self.took.borrow();
        let mean = |wanted: &dyn Fn(&(String, String, Duration)) -> bool| {
            let found: Vec<Duration> = took
                .iter()
                .filter(|entry| wanted(entry))
                .map(|entry| entry.2)
                .collect();
            let count = u32::try_from(found.len()).ok().filter(|count| *count > 0)?;
            Some(found.iter().sum::<Duration>() / count)
        };
        let left = self.left.borrow();
        let each = left.iter().map(|(step, subject)| {
            mean(&|entry| entry.0 == *step && entry.1 == *subject)
                .or_else(|| mean(&|entry| entry.0 == *step))
                .or_else(|| mean(&|_| true))
                .unwrap_or_default()
        });
        each.sum()
    }
}

fn minutes(time: Duration) -> String {
    let secs = time.as_secs();
    format!("{}:{:02} min", secs / 60, secs % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_likes_so_far() {
        let task = |step: &str, subject: &str| (step.to_owned(), subject.to_owned());
        let left = vec![task("drain", "a"), task("drain", "b"), task("held", "a")];
        let progress = Progress::new(left);
        let took = |step: &str, subject: &str, secs| {
            (
                step.to_owned(),
                subject.to_owned(),
                Duration::from_secs(secs),
            )
        };
        progress.took.borrow_mut().push(took("drain", "a", 10));
        assert_eq!(progress.time_left(), Duration::from_secs(30));
        progress.took.borrow_mut().push(took("drain", "b", 30));
        assert_eq!(progress.time_left(), Duration::from_secs(10 + 30 + 20));
        assert_eq!(minutes(Duration::from_secs(65)), "1:05 min");
    }
}
