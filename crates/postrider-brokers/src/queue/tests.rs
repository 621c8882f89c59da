use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use postrider_core::{Delivery, Message, MessageKey, Ordering, SubscribeError, Topic};

use super::state::{State, Taken};
use super::{Entry, Limits, Lot, OnNack, Queue, Room, Ticket, Trouble};

const SEC: Duration = Duration::from_secs(1);
const LOT: Lot = Lot(0);

/// Writes down what the broker would be told.
struct Noted {
    name: String,
    on_nack: OnNack,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Ticket for Noted {
    fn acked(self) {
        self.notes
            .lock()
            .unwrap()
            .push(format!("{} done", self.name));
    }

    fn given_back(self) {
        self.notes
            .lock()
            .unwrap()
            .push(format!("{} back", self.name));
    }

    fn on_nack(&self, _after: Duration) -> OnNack {
        self.on_nack
    }
}

/// A queue whose messages are named by their key and a number: `a0`.
struct Bench {
    state: State<Noted>,
    seat: u64,
    start: Instant,
    on_nack: OnNack,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(ordering: Ordering) -> Self {
        let mut state = State::new(limits(ordering));
        Self {
            seat: state.sit_down(),
            state,
            start: Instant::now(),
            on_nack: OnNack::PutBack,
            notes: Arc::default(),
        }
    }

    fn keyed() -> Self {
        Self::new(Ordering::Key)
    }

    fn push(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.push_to(LOT, name));
    }

    fn push_to(&mut self, lot: Lot, name: &str) {
        let entry = entry(lot, name, self.on_nack, &self.notes);
        self.state.push(entry);
    }

    fn take(&mut self, max: usize, at: Duration) -> Vec<Taken> {
        self.state.take(self.seat, max, self.start + at)
    }

    fn take_names(&mut self, max: usize, at: Duration) -> Vec<String> {
        names(&self.take(max, at))
    }

    fn nack(&mut self, taken: &Taken, after: Duration, at: Duration) {
        self.state.nack(taken.number, after, self.start + at);
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

fn limits(ordering: Ordering) -> Limits {
    Limits {
        count_max: 8,
        bytes_max: 1_000,
        ordering,
    }
}

fn entry(lot: Lot, name: &str, on_nack: OnNack, notes: &Arc<Mutex<Vec<String>>>) -> Entry<Noted> {
    Entry {
        message: Message {
            topic: Topic::from("topic"),
            key: Some(MessageKey::from(&name[..1])),
            ordered: false,
            payload: Some(Bytes::from(name.to_owned())),
            headers: Vec::new(),
        },
        published_at: None,
        attempt: 1,
        position: name.to_owned(),
        lot,
        ticket: Noted {
            name: name.to_owned(),
            on_nack,
            notes: Arc::clone(notes),
        },
    }
}

fn names(taken: &[Taken]) -> Vec<String> {
    taken.iter().map(|taken| taken.position.clone()).collect()
}

#[test]
fn a_batch_has_several_of_a_key_in_order_and_then_the_key_is_in_hand() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "b0", "a1", "b1", "a2"]);
    let first = bench.take(2, SEC);
    assert_eq!(names(&first), ["a0", "a1"]);
    assert!(first[0].message.ordered);
    bench.push(&["a3"]);
    assert_eq!(bench.take_names(10, SEC), ["b0", "b1"]);
    assert!(bench.take(10, SEC).is_empty());
    bench.state.ack(first[0].number);
    assert!(bench.take(10, SEC).is_empty(), "a1 is still in hand");
    bench.state.ack(first[1].number);
    assert_eq!(bench.take_names(10, SEC), ["a2", "a3"]);
    assert_eq!(bench.notes(), ["a0 done", "a1 done"]);
}

#[test]
fn without_order_a_key_means_nothing() {
    let mut bench = Bench::new(Ordering::None);
    bench.push(&["a0", "a1", "a2"]);
    let first = bench.take(1, SEC);
    assert!(!first[0].message.ordered);
    assert_eq!(bench.take_names(10, SEC), ["a1", "a2"]);
    bench.nack(&first[0], SEC, SEC);
    bench.push(&["a3"]);
    assert_eq!(bench.take_names(10, SEC), ["a3"]);
    assert_eq!(bench.take_names(10, 2 * SEC), ["a0"]);
}

#[test]
fn what_is_put_back_goes_first_when_its_time_has_come_and_counts_the_attempt() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "a1", "b0"]);
    let first = bench.take(1, SEC);
    bench.nack(&first[0], 5 * SEC, SEC);
    assert_eq!(bench.take_names(10, 5 * SEC), ["b0"]);
    assert_eq!(bench.state.next_due(), Some(bench.start + 6 * SEC));
    let again = bench.take(10, 6 * SEC);
    assert_eq!(names(&again), ["a0", "a1"]);
    assert_eq!((again[0].attempt, again[1].attempt), (2, 1));
    assert_eq!(bench.state.next_due(), None);
}

#[test]
fn a_nacked_tail_of_a_batch_keeps_its_order_and_each_its_time() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "a1", "a2", "a3"]);
    let batch = bench.take(3, SEC);
    bench.state.ack(batch[0].number);
    // In the wrong order, as drops may come.
    bench.nack(&batch[2], 9 * SEC, SEC);
    bench.nack(&batch[1], SEC, SEC);
    assert!(bench.take(10, SEC).is_empty());
    let second = bench.take(10, 2 * SEC);
    assert_eq!(names(&second), ["a1"]);
    bench.state.ack(second[0].number);
    assert!(bench.take(10, 3 * SEC).is_empty(), "a2 is not due");
    assert_eq!(bench.take_names(10, 10 * SEC), ["a2", "a3"]);
}

#[test]
fn one_that_fails_without_pause_lets_the_others_have_their_turn() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "b0", "c0"]);
    let first = bench.take(1, SEC);
    bench.nack(&first[0], Duration::ZERO, SEC);
    assert_eq!(bench.take_names(1, SEC), ["b0"]);
    assert_eq!(bench.take_names(1, SEC), ["c0"]);
    assert_eq!(bench.take_names(1, SEC), ["a0"]);
}

#[test]
fn what_goes_back_to_the_broker_takes_along_what_waits_behind_it() {
    let mut bench = Bench::keyed();
    bench.on_nack = OnNack::GiveBack;
    bench.push(&["a0", "a1", "a2", "b0"]);
    let batch = bench.take(2, SEC);
    bench.nack(&batch[0], 3 * SEC, SEC);
    assert!(bench.notes().is_empty(), "a1 is in hand");
    bench.nack(&batch[1], Duration::ZERO, SEC);
    bench.push(&["a3"]);
    assert_eq!(bench.take_names(10, 3 * SEC), ["b0"]);
    assert!(bench.notes().is_empty(), "not before its time");
    bench.state.wake_rested(bench.start + 4 * SEC);
    assert_eq!(bench.notes(), ["a0 back", "a1 back", "a2 back", "a3 back"]);
    assert_eq!(bench.state.len(), 1);
    bench.push(&["a0"]);
    assert_eq!(bench.take_names(10, 4 * SEC), ["a0"]);
}

#[test]
fn a_revoked_lot_is_gone_and_its_receipts_settle_nothing() {
    let mut bench = Bench::keyed();
    bench.push_to(Lot(1), "a0");
    bench.push_to(Lot(1), "a1");
    bench.push_to(Lot(2), "b0");
    let batch = bench.take(1, SEC);
    bench.state.revoke(&[Lot(1)]);
    assert_eq!(bench.notes(), ["a1 back", "a0 back"]);
    assert!(!bench.state.is_in_hand(batch[0].number));
    // The partition comes back, under another number.
    bench.push_to(Lot(3), "a0");
    bench.state.ack(batch[0].number);
    bench.nack(&batch[0], Duration::ZERO, SEC);
    assert!(bench.notes().is_empty());
    assert_eq!(bench.take_names(10, SEC), ["b0", "a0"]);
    assert_eq!(bench.state.len(), 2);
}

#[test]
fn of_a_withheld_lot_nothing_more_is_given_but_what_is_in_hand_can_be_finished() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "b0", "c0"]);
    let batch = bench.take(2, SEC);
    bench.state.withhold(&[LOT]);
    assert_eq!(bench.notes(), ["c0 back"]);
    assert!(bench.state.has_in_hand(&[LOT]));
    bench.state.ack(batch[0].number);
    bench.nack(&batch[1], Duration::ZERO, SEC);
    assert_eq!(bench.notes(), ["a0 done", "b0 back"]);
    assert!(!bench.state.has_in_hand(&[LOT]));
    assert!(bench.take(10, SEC).is_empty());
}

#[test]
fn revoking_one_lot_leaves_a_resting_key_of_another_in_its_place() {
    let mut bench = Bench::keyed();
    bench.push_to(Lot(1), "a0");
    bench.push_to(Lot(2), "a1");
    let batch = bench.take(2, SEC);
    bench.nack(&batch[0], 5 * SEC, SEC);
    bench.nack(&batch[1], Duration::ZERO, SEC);
    bench.state.revoke(&[Lot(1)]);
    assert_eq!(bench.take_names(10, SEC), ["a1"], "it waited for a0 only");
}

#[test]
fn each_lot_has_its_share_and_the_whole_its_bound() {
    let mut bench = Bench::keyed();
    bench.state.open(Lot(1));
    bench.state.open(Lot(2));
    assert_eq!(bench.state.room(Lot(1)), Room::Plenty);
    for name in ["a0", "b0", "c0"] {
        bench.push_to(Lot(1), name);
    }
    assert_eq!(bench.state.room(Lot(1)), Room::Some);
    bench.push_to(Lot(1), "d0");
    assert_eq!(bench.state.room(Lot(1)), Room::None);
    assert_eq!(bench.state.room(Lot(2)), Room::Plenty);
    let batch = bench.take(2, SEC);
    assert_eq!(bench.state.room(Lot(1)), Room::None, "in hand is in flight");
    batch.iter().for_each(|taken| bench.state.ack(taken.number));
    assert_eq!(bench.state.room(Lot(1)), Room::Plenty);
    for name in ["e0", "f0", "g0", "h0", "i0", "j0"] {
        bench.push_to(Lot(2), name);
    }
    assert!(bench.state.is_full());
    assert_eq!(bench.state.room(Lot(1)), Room::None, "the whole is used up");
}

#[test]
fn bytes_are_bounded_too() {
    let mut bench = Bench::keyed();
    let mut large = entry(LOT, "a0", OnNack::PutBack, &bench.notes);
    large.message.payload = Some(Bytes::from(vec![0; 2_000]));
    bench.state.push(large);
    assert!(bench.state.is_full());
    let batch = bench.take(1, SEC);
    bench.state.ack(batch[0].number);
    assert_eq!(bench.state.room(LOT), Room::Plenty);
}

#[test]
fn what_a_seat_held_goes_to_the_others_when_it_is_gone() {
    let mut bench = Bench::keyed();
    bench.push(&["a0", "a1", "b0"]);
    let other = bench.state.sit_down();
    let batch = bench.take(2, SEC);
    bench.state.stand_up(bench.seat, bench.start + SEC);
    assert!(bench.state.is_closed(bench.seat));
    bench.state.ack(batch[0].number);
    let again = bench.state.take(other, 10, bench.start + SEC);
    assert_eq!(names(&again), ["b0", "a0", "a1"]);
    assert_eq!(again[1].attempt, 2);
}

fn queue() -> (Queue<Noted>, impl Fn(&str) -> Entry<Noted>) {
    let notes = Arc::default();
    let make = move |name: &str| entry(LOT, name, OnNack::PutBack, &notes);
    (Queue::new(limits(Ordering::Key)), make)
}

fn positions(batch: &[Delivery]) -> Vec<&str> {
    batch.iter().map(|d| d.position.as_str()).collect()
}

#[tokio::test]
async fn whoever_waits_is_woken_by_a_push_a_due_time_and_trouble() {
    let (queue, entry) = queue();
    let seat = queue.seat();
    let push = async { queue.push(entry("a0")) };
    let (batch, ()) = tokio::join!(seat.next(10), push);
    let mut batch = batch.unwrap();
    batch[0].nack(Duration::from_millis(20));
    let again = tokio::time::timeout(60 * SEC, seat.next(10)).await;
    let mut again = again.expect("it is woken").unwrap();
    assert_eq!((again[0].position.as_str(), again[0].attempt), ("a0", 2));
    again[0].ack();
    let fail = async { queue.fail(Trouble::Refused("no".into())) };
    let (refused, ()) = tokio::join!(seat.next(10), fail);
    assert!(matches!(refused, Err(SubscribeError::Refused { .. })));
    queue.push(entry("a1"));
    assert_eq!(
        positions(&seat.next(10).await.unwrap()),
        ["a1"],
        "what is here is given"
    );
}

#[tokio::test]
async fn a_closed_seat_drains_and_lost_is_told_to_those_who_hold() {
    let (queue, entry) = queue();
    let seat = queue.seat();
    queue.push(entry("a0"));
    queue.push(entry("b0"));
    let mut batch = seat.next(10).await.unwrap();
    seat.close();
    assert!(matches!(seat.next(1).await, Err(SubscribeError::Closed)));
    assert!(!seat.drained(Instant::now()).await);
    batch[0].ack();
    let (held, lose) = (&batch[1], async { queue.revoke_all() });
    let (drained, (), ()) = tokio::join!(seat.drained(super::after(60 * SEC)), held.lost(), lose);
    assert!(drained);
}

#[test]
fn waiting_for_work_in_hand_ends_when_it_is_settled_or_time_is_up() {
    let (queue, entry) = queue();
    let seat = queue.seat();
    queue.push(entry("a0"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut batch = runtime.block_on(seat.next(1)).unwrap();
    queue.withhold(&[LOT]);
    assert!(!queue.wait_until_settled(&[LOT], Instant::now()));
    let waiting = {
        let queue = queue.clone();
        std::thread::spawn(move || queue.wait_until_settled(&[LOT], super::after(60 * SEC)))
    };
    batch[0].ack();
    assert!(waiting.join().unwrap());
}

#[test]
fn what_was_on_the_way_when_its_key_went_back_does_not_overtake() {
    let mut bench = Bench::keyed();
    bench.on_nack = OnNack::GiveBack;
    bench.push(&["a0"]);
    let batch = bench.take(1, SEC);
    bench.nack(&batch[0], Duration::ZERO, SEC);
    bench.push(&["a1", "b0"]);
    assert_eq!(bench.take_names(10, SEC), ["b0"]);
    assert_eq!(bench.notes(), ["a0 back"]);
    bench.push(&["a0", "a1"]);
    assert_eq!(bench.notes(), ["a1 back"], "it is here once more");
    assert_eq!(bench.take_names(10, SEC), ["a0", "a1"]);
    assert_eq!(bench.state.next_due(), None);
}

#[test]
fn a_key_does_not_wait_for_ever_for_what_went_back() {
    let mut bench = Bench::keyed();
    bench.on_nack = OnNack::GiveBack;
    bench.push(&["a0", "c0"]);
    let batch = bench.take(2, SEC);
    bench.nack(&batch[0], Duration::ZERO, SEC);
    bench.nack(&batch[1], Duration::ZERO, SEC);
    bench.push(&["a1"]);
    assert!(bench.take(10, SEC).is_empty());
    assert_eq!(bench.notes(), ["a0 back", "c0 back"]);
    let due = bench.state.next_due().expect("it waits");
    bench.state.wake_rested(due);
    assert_eq!(bench.notes(), ["a1 back"]);
    bench.push(&["a1"]);
    assert_eq!(bench.take_names(10, SEC), ["a1"]);
    assert_eq!((bench.state.next_due(), bench.state.len()), (None, 1));
}

#[test]
fn what_lapses_is_lost_to_its_holder_and_takes_along_what_follows_it() {
    let mut bench = Bench::keyed();
    bench.on_nack = OnNack::GiveBack;
    bench.push_to(Lot(1), "a0");
    bench.push_to(Lot(1), "b0");
    let batch = bench.take(1, SEC);
    bench.push_to(Lot(2), "a1");
    bench.push_to(Lot(2), "c0");
    bench.state.lapse(Lot(1), bench.start + SEC);
    assert!(!bench.state.is_in_hand(batch[0].number));
    let mut notes = bench.notes();
    notes.sort();
    assert_eq!(notes, ["a0 back", "a1 back", "b0 back"]);
    assert_eq!(bench.take_names(10, SEC), ["c0"]);
    bench.state.ack(batch[0].number);
    assert!(bench.notes().is_empty());
    assert_eq!(bench.state.lots(), [Lot(2)]);
}

#[cfg(feature = "pubsub")]
#[tokio::test]
async fn what_goes_back_while_somebody_waits_makes_room() {
    let notes = Arc::default();
    let one = Limits {
        count_max: 1,
        ..limits(Ordering::Key)
    };
    let queue = Queue::new(one);
    let seat = queue.seat();
    queue.push(entry(LOT, "a0", OnNack::GiveBack, &notes));
    seat.next(1).await.unwrap()[0].nack(Duration::from_millis(20));
    let room = tokio::time::timeout(60 * SEC, queue.until_room());
    tokio::select! {
        room = room => room.expect("in time"),
        next = seat.next(1) => panic!("{next:?}"),
    }
}
