//! What is where: a state machine without threads and without a clock of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Message, MessageKey, Ordering, Timestamp, Topic};

use super::{Entry, Limits, Lot, OnNack, Room, Ticket, Trouble, WAIT_MAX};

pub(super) struct State<T> {
    pub(super) trouble: Option<Trouble>,
    limits: Limits,
    pub(super) strands: HashMap<Order, Strand<T>>,
    /// Strands that may be taken from, those that have been so for longest first.
    ready: VecDeque<Order>,
    /// Strands whose first message was put back, by the time when it may go again.
    pub(super) resting: BTreeSet<(Instant, Order)>,
    /// Strands that went back to the broker since somebody last said what time it is.
    pub(super) gone: Vec<Order>,
    in_hand: BTreeMap<u64, InHand<T>>,
    pub(super) lots: BTreeMap<Lot, LotState>,
    seats: BTreeMap<u64, SeatState>,
    load: Load,
    next_number: u64,
}

/// Messages that must follow each other, as one name.
pub(super) type Order = Arc<OrderName>;

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum OrderName {
    Key(Topic, MessageKey),
    Alone(u64),
}

pub(super) struct Strand<T> {
    /// By number, which is the order of arrival.
    pub(super) waiting: VecDeque<Waiting<T>>,
    in_hand: usize,
    pub(super) place: Place,
    /// The position of the first message that went back to the broker and is not here again.
    pub(super) awaited: Option<String>,
}

#[derive(PartialEq)]
pub(super) enum Place {
    /// In hand, or about to be placed.
    Nowhere,
    Ready,
    Resting(Instant),
    Gone,
}

pub(super) struct Waiting<T> {
    number: u64,
    /// When it may go again.
    pub(super) due: Option<Instant>,
    /// Whether it then goes back to the broker.
    pub(super) leaves: bool,
    pub(super) size: usize,
    pub(super) entry: Entry<T>,
}

pub(super) struct InHand<T> {
    order: Order,
    seat: u64,
    size: usize,
    pub(super) entry: Entry<T>,
}

/// What a seat is given.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) number: u64,
    pub(super) message: Message,
    pub(super) published_at: Option<Timestamp>,
    pub(super) attempt: u32,
    pub(super) position: String,
}

#[derive(Default)]
pub(super) struct LotState {
    pub(super) load: Load,
    withheld: bool,
}

#[derive(Default)]
struct SeatState {
    in_hand: usize,
    closed: bool,
}

#[derive(Default, Clone, Copy)]
pub(super) struct Load {
    pub(super) count: usize,
    bytes: usize,
}

impl<T: Ticket> State<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            trouble: None,
            limits,
            strands: HashMap::new(),
            ready: VecDeque::new(),
            resting: BTreeSet::new(),
            gone: Vec::new(),
            in_hand: BTreeMap::new(),
            lots: BTreeMap::new(),
            seats: BTreeMap::new(),
            load: Load::default(),
            next_number: 0,
        }
    }

    pub(super) fn push(&mut self, mut entry: Entry<T>) {
        let number = self.number();
        let message = &mut entry.message;
        let key = message
            .key
            .as_ref()
            .filter(|_| self.limits.ordering == Ordering::Key);
        message.ordered = key.is_some();
        let order = Arc::new(match key {
            Some(key) => OrderName::Key(message.topic.clone(), key.clone()),
            None => OrderName::Alone(number),
        });
        let waiting = Waiting {
            number,
            due: None,
            leaves: false,
            size: entry.message.size(),
            entry,
        };
        self.come_back(&order, &waiting.entry.position);
        self.load.add(waiting.size);
        let lot = self.lots.entry(waiting.entry.lot).or_default();
        lot.load.add(waiting.size);
        let strand = self.strands.entry(Arc::clone(&order)).or_default();
        strand.waiting.push_back(waiting);
        self.place(&order);
    }

    /// Up to `max` messages that may go now. Nothing that it gives is of a strand that is in hand.
    pub(super) fn take(&mut self, seat: u64, max: usize, now: Instant) -> Vec<Taken> {
        self.wake_rested(now);
        let mut batch = Vec::new();
        while batch.len() < max.max(1)
            && let Some(order) = self.ready.pop_front()
        {
            let Some(strand) = self.strands.get_mut(&order) else {
                continue;
            };
            strand.place = Place::Nowhere;
            while batch.len() < max.max(1)
                && let Some(next) = strand
                    .waiting
                    .pop_front_if(|next| !next.leaves && next.due.is_none_or(|due| due <= now))
            {
                strand.in_hand += 1;
                let entry = &next.entry;
                batch.push(Taken {
                    number: next.number,
                    message: entry.message.clone(),
                    published_at: entry.published_at,
                    attempt: entry.attempt,
                    position: entry.position.clone(),
                });
                let in_hand = InHand {
                    order: Arc::clone(&order),
                    seat,
                    size: next.size,
                    entry: next.entry,
                };
                self.in_hand.insert(next.number, in_hand);
            }
        }
        self.seats.entry(seat).or_default().in_hand += batch.len();
        batch
    }

    /// When something that was put back may go, if nothing else happens.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.resting.first().map(|(due, _)| *due)
    }

    /// Has no effect on a message that was lost or settled before; nor has a nack.
    pub(super) fn ack(&mut self, number: u64) {
        let Some(held) = self.let_go(number) else {
            return;
        };
        self.unload(held.entry.lot, held.size);
        self.place(&held.order);
        held.entry.ticket.acked();
    }

    pub(super) fn nack(&mut self, number: u64, after: Duration, now: Instant) {
        let Some(held) = self.let_go(number) else {
            return;
        };
        let order = Arc::clone(&held.order);
        let lot = self.lots.get(&held.entry.lot);
        let withheld = lot.is_none_or(|lot| lot.withheld);
        if withheld {
            self.give_back(held.entry, held.size);
        } else {
            self.put_back(number, held, after, now);
        }
        self.place(&order);
    }

    pub(super) fn put_back(&mut self, number: u64, held: InHand<T>, after: Duration, now: Instant) {
        let mut entry = held.entry;
        entry.attempt = entry.attempt.saturating_add(1);
        let waiting = Waiting {
            number,
            due: (!after.is_zero()).then(|| now + after.min(WAIT_MAX)),
            leaves: entry.ticket.on_nack(after) == OnNack::GiveBack,
            size: held.size,
            entry,
        };
        let strand = self.strands.entry(held.order).or_default();
        let index = strand.waiting.partition_point(|w| w.number < number);
        strand.waiting.insert(index, waiting);
    }

    pub(super) fn give_back(&mut self, entry: Entry<T>, size: usize) {
        self.unload(entry.lot, size);
        entry.ticket.given_back();
    }

    pub(super) fn open(&mut self, lot: Lot) {
        self.lots.entry(lot).or_default();
    }

    pub(super) fn lots(&self) -> Vec<Lot> {
        self.lots.keys().copied().collect()
    }

    pub(super) fn withhold(&mut self, lots: &[Lot]) {
        for lot in lots {
            self.lots.entry(*lot).or_default().withheld = true;
        }
        self.clear_waiting(lots);
    }

    pub(super) fn revoke(&mut self, lots: &[Lot]) {
        self.clear_waiting(lots);
        let of_lots = |held: &InHand<T>| lots.contains(&held.entry.lot);
        for number in self.numbers_in_hand(of_lots) {
            if let Some(held) = self.let_go(number) {
                self.give_back(held.entry, held.size);
                self.place(&held.order);
            }
        }
        for lot in lots {
            self.lots.remove(lot);
        }
    }

    fn clear_waiting(&mut self, lots: &[Lot]) {
        let mut removed = Vec::new();
        let mut touched = Vec::new();
        for (order, strand) in &mut self.strands {
            let of_lots = |waiting: &Waiting<T>| lots.contains(&waiting.entry.lot);
            if strand.waiting.iter().any(of_lots) {
                let all = std::mem::take(&mut strand.waiting);
                let (gone, kept): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(of_lots);
                strand.waiting = kept;
                removed.extend(gone);
                touched.push(Arc::clone(order));
            }
        }
        for order in touched {
            self.displace(&order);
            self.place(&order);
        }
        removed.sort_by_key(|waiting| waiting.number);
        for waiting in removed {
            self.give_back(waiting.entry, waiting.size);
        }
    }

    pub(super) fn sit_down(&mut self) -> u64 {
        let number = self.number();
        self.seats.insert(number, SeatState::default());
        number
    }

    /// The seat takes nothing more.
    pub(super) fn close(&mut self, seat: u64) {
        self.seats.entry(seat).or_default().closed = true;
    }

    pub(super) fn is_closed(&self, seat: u64) -> bool {
        self.seats.get(&seat).is_none_or(|seat| seat.closed)
    }

    pub(super) fn holds_any(&self, seat: u64) -> bool {
        self.seats.get(&seat).is_some_and(|seat| seat.in_hand > 0)
    }

    /// The seat is gone: what it held is lost to it and counts as nacked.
    pub(super) fn stand_up(&mut self, seat: u64, now: Instant) {
        for number in self.numbers_in_hand(|held| held.seat == seat) {
            self.nack(number, Duration::ZERO, now);
        }
        self.seats.remove(&seat);
    }

    pub(super) fn is_in_hand(&self, number: u64) -> bool {
        self.in_hand.contains_key(&number)
    }

    pub(super) fn has_in_hand(&self, lots: &[Lot]) -> bool {
        self.in_hand
            .values()
            .any(|held| lots.contains(&held.entry.lot))
    }

    pub(super) fn len(&self) -> usize {
        self.load.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.load
            .reaches(self.limits.count_max, self.limits.bytes_max)
    }

    pub(super) fn room(&self, lot: Lot) -> Room {
        let shares = self.lots.len().max(1);
        let count = (self.limits.count_max / shares).max(1);
        let bytes = (self.limits.bytes_max / shares).max(1);
        let load = self
            .lots
            .get(&lot)
            .map_or_else(Load::default, |lot| lot.load);
        if self.is_full() || load.reaches(count, bytes) {
            Room::None
        } else if load.count <= count / 2 && load.bytes <= bytes / 2 {
            Room::Plenty
        } else {
            Room::Some
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn numbers_in_hand(&self, matches: impl Fn(&InHand<T>) -> bool) -> Vec<u64> {
        let matching = self.in_hand.iter().filter(|(_, held)| matches(held));
        matching.map(|(number, _)| *number).collect()
    }

    /// Takes a message out of its holder's hand; its strand has to be placed after that.
    pub(super) fn let_go(&mut self, number: u64) -> Option<InHand<T>> {
        let held = self.in_hand.remove(&number)?;
        if let Some(strand) = self.strands.get_mut(&held.order) {
            strand.in_hand -= 1;
        }
        if let Some(seat) = self.seats.get_mut(&held.seat) {
            seat.in_hand -= 1;
        }
        Some(held)
    }

    fn unload(&mut self, lot: Lot, size: usize) {
        self.load.remove(size);
        if let Some(lot) = self.lots.get_mut(&lot) {
            lot.load.remove(size);
        }
    }

    /// Lets go on what has rested long enough.
    pub(super) fn wake_rested(&mut self, now: Instant) {
        self.await_gone(now);
        while let Some((due, _)) = self.resting.first()
            && *due <= now
            && let Some((_, order)) = self.resting.pop_first()
        {
            self.await_no_longer(&order);
            if let Some(strand) = self.strands.get_mut(&order) {
                strand.place = Place::Nowhere;
                if let Some(front) = strand.waiting.front_mut() {
                    front.due = None;
                }
                // At the back: one that fails without pause must not keep the others from their turn.
                self.place(&order);
            }
        }
    }

    /// Makes a strand that is nowhere ready, lets it rest, or forgets it when nothing of it is left.
    pub(super) fn place(&mut self, order: &Order) {
        let Some(strand) = self.strands.get_mut(order) else {
            return;
        };
        if strand.in_hand > 0 || strand.place != Place::Nowhere {
            return;
        }
        match strand.waiting.front() {
            _ if strand.awaited.is_some() => {
                strand.place = Place::Gone;
                self.gone.push(Arc::clone(order));
            }
            None => {
                self.strands.remove(order);
            }
            Some(Waiting {
                due: None,
                leaves: true,
                ..
            }) => self.go_back(order),
            Some(Waiting { due: None, .. }) => {
                strand.place = Place::Ready;
                self.ready.push_back(Arc::clone(order));
            }
            Some(Waiting { due: Some(due), .. }) => {
                strand.place = Place::Resting(*due);
                self.resting.insert((*due, Arc::clone(order)));
            }
        }
    }

    /// Takes a strand from where it is placed, because its front has changed.
    pub(super) fn displace(&mut self, order: &Order) {
        let Some(strand) = self.strands.get_mut(order) else {
            return;
        };
        match std::mem::replace(&mut strand.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Ready => self.ready.retain(|ready| ready != order),
            Place::Resting(due) => {
                self.resting.remove(&(due, Arc::clone(order)));
            }
            Place::Gone => self.gone.retain(|gone| gone != order),
        }
    }
}

impl<T> Default for Strand<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_hand: 0,
            place: Place::Nowhere,
            awaited: None,
        }
    }
}

impl Load {
    fn add(&mut self, size: usize) {
        self.count += 1;
        self.bytes += size;
    }

    fn remove(&mut self, size: usize) {
        self.count -= 1;
        self.bytes -= size;
    }

    fn reaches(self, count: usize, bytes: usize) -> bool {
        self.count >= count || self.bytes >= bytes
    }
}
