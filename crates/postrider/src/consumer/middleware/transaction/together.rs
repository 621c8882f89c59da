//! Deliveries of one batch in one transaction: who may run when, who commits, and what follows a failure.
//!
//! Every member of a group passes its own chain. Those that reach the transaction take turns in it, in the order in
//! which they were delivered; when all have run or left, one of them commits. If anything goes wrong the group is
//! broken: the transaction is gone and each starts again alone, a key's members still one after the other.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::{Admission, Delivery, EventId, Message};
use tokio::sync::Notify;

/// An open transaction of whatever type.
pub(super) type AnyTx = Box<dyn Any + Send>;

/// The batch, as the worker has it.
pub(in crate::consumer) struct Group(Arc<Shared>);

/// A member's place in the batch.
#[derive(Clone)]
pub(in crate::consumer) struct Seat {
    shared: Arc<Shared>,
    index: usize,
}

struct Shared {
    state: Mutex<State>,
    /// One per member, so that a turn wakes one.
    bells: Vec<Notify>,
    /// After a break-up, one transaction at a time: a group never takes more than one connection.
    solo: tokio::sync::Mutex<()>,
}

struct State {
    members: Vec<Member>,
    phase: Phase,
    tx: Option<AnyTx>,
    foreseen: Vec<Foreseen>,
}

struct Member {
    /// The nearest earlier member with the same key.
    before: Option<usize>,
    stage: Stage,
    /// What an inbox needs to know; absent where the message has no event id.
    entry: Option<Entry>,
}

/// An event, as an inbox enters it.
#[derive(Clone)]
pub(in crate::consumer) struct Entry {
    pub(in crate::consumer) event_id: EventId,
    pub(in crate::consumer) event_type: Option<String>,
    pub(in crate::consumer) source: Option<String>,
}

/// What an inbox said about a member ahead of its turn.
struct Foreseen {
    inbox: usize,
    index: usize,
    admission: Admission,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On its way to the transaction.
    Coming,
    /// Has the transaction in hand.
    Running,
    /// Its effects stand in the transaction.
    Ran,
    /// Does without the transaction, and is on its way to the end.
    Aside,
    /// Its chain is through.
    Left(Left),
}

/// How a member's chain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) struct Left {
    pub(in crate::consumer) handled: bool,
    /// It is dead-lettered, and the later ones of its key have to follow it there.
    pub(in crate::consumer) parked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Together,
    /// By the member of this index.
    Committing(usize),
    Committed,
    Broken,
}

/// What a member gets when its turn comes.
pub(super) enum Turn {
    /// Nobody has begun the transaction.
    First,
    Next(AnyTx),
    Broken,
    /// An earlier member of its key was not handled.
    Deferred,
}

/// What became of the transaction that a member ran in.
pub(super) enum Verdict {
    Committed,
    Broken,
    /// This member is the one to commit it.
    Commit(AnyTx),
}

impl Group {
    pub(in crate::consumer) fn new(deliveries: &[Delivery]) -> Self {
        let order = |message: &Message| {
            let key = message.key.clone().filter(|_| message.ordered)?;
            Some((message.topic.clone(), key))
        };
        let mut last = std::collections::HashMap::new();
        let members: Vec<Member> = deliveries
            .iter()
            .enumerate()
            .map(|(index, delivery)| Member {
                before: order(&delivery.message).and_then(|key| last.insert(key, index)),
                stage: Stage::Coming,
                entry: None,
            })
            .collect();
        Self(Arc::new(Shared {
            bells: members.iter().map(|_| Notify::new()).collect(),
            state: Mutex::new(State {
                members,
                phase: Phase::Together,
                tx: None,
                foreseen: Vec::new(),
            }),
            solo: tokio::sync::Mutex::default(),
        }))
    }

    pub(in crate::consumer) fn seat(&self, index: usize) -> Seat {
        Seat {
            shared: self.0.clone(),
            index,
        }
    }

    /// Whether an earlier member of the same key was not handled.
    pub(in crate::consumer) fn is_held(&self, index: usize) -> bool {
        let state = self.0.lock();
        let handled = |member: &Member| matches!(member.stage, Stage::Left(left) if left.handled);
        !state.earlier_of_key(index).all(handled)
    }

    /// Says which event a member has.
    pub(in crate::consumer) fn introduce(&self, index: usize, entry: Option<Entry>) {
        self.0.lock().members[index].entry = entry;
    }

    /// A member's chain is through.
    pub(in crate::consumer) fn leave(&self, index: usize, left: Left) {
        self.0.lock().go(index, Stage::Left(left));
        self.0.ring();
    }
}

impl State {
    /// All earlier members of the same key, the latest first. One that was handled may stand behind one that was not.
    fn earlier_of_key(&self, index: usize) -> impl Iterator<Item = &Member> {
        let before = |member: &&Member| Some(&self.members[member.before?]);
        std::iter::successors(Some(&self.members[index]), before).skip(1)
    }

    /// A member that goes before its turn, and is entered in the inbox already, must not be committed as seen: its
    /// effects are not there. So the group breaks up.
    fn go(&mut self, index: usize, stage: Stage) {
        let entered = self.foreseen.iter().any(|foreseen| foreseen.index == index);
        let ran = self.members[index].stage == Stage::Ran;
        if entered && !ran && self.phase == Phase::Together {
            self.phase = Phase::Broken;
            self.tx = None;
        }
        self.members[index].stage = stage;
    }
}

impl Seat {
    /// Whether this member may still run with the others; a second try may not.
    pub(super) fn may_join(&self) -> bool {
        let state = self.shared.lock();
        state.phase == Phase::Together && state.members[self.index].stage == Stage::Coming
    }

    /// Takes part from here on: dropped before the commit, it breaks the group up.
    pub(super) fn join(&self) -> Joined<'_> {
        Joined(self)
    }

    /// Lets the others go on without this one, and waits until every earlier member of its key is through; false
    /// when one was not handled.
    pub(in crate::consumer) async fn aside_after_key(&self) -> bool {
        self.shared.lock().go(self.index, Stage::Aside);
        self.shared.ring();
        self.earlier_of_key().await.handled
    }

    /// Waits until every earlier member of the same key is through, and says how they ended.
    pub(super) async fn earlier_of_key(&self) -> Left {
        self.wait(|state| {
            let mut all = Left {
                handled: true,
                parked: false,
            };
            for earlier in state.earlier_of_key(self.index) {
                let Stage::Left(left) = earlier.stage else {
                    return None;
                };
                all.handled &= left.handled;
                all.parked |= left.parked;
            }
            Some(all)
        })
        .await
    }

    /// What `inbox` said about this member when an earlier one had its turn.
    pub(in crate::consumer) fn foreseen(&self, inbox: usize) -> Option<Admission> {
        let state = self.shared.lock();
        if !self.has_the_turn(&state) {
            return None;
        }
        let of_this =
            |foreseen: &&Foreseen| foreseen.index == self.index && foreseen.inbox == inbox;
        state
            .foreseen
            .iter()
            .find(of_this)
            .map(|foreseen| foreseen.admission)
    }

    /// The members that are still to have their turn in the same transaction, with their events.
    pub(in crate::consumer) fn later(&self) -> Vec<(usize, Entry)> {
        let state = self.shared.lock();
        if !self.has_the_turn(&state) {
            return Vec::new();
        }
        let coming = |(index, member): (usize, &Member)| {
            let entry = member
                .entry
                .clone()
                .filter(|_| member.stage == Stage::Coming)?;
            Some((index, entry))
        };
        let after_this = state.members.iter().enumerate().skip(self.index + 1);
        after_this.filter_map(coming).collect()
    }

    /// Notes what `inbox` said about later members.
    pub(in crate::consumer) fn foresee(
        &self,
        inbox: usize,
        said: impl Iterator<Item = (usize, Admission)>,
    ) {
        let mut state = self.shared.lock();
        for (index, admission) in said {
            // It left while the inbox was asked; see `State::go`.
            if state.members[index].stage != Stage::Coming {
                state.phase = Phase::Broken;
            }
            state.foreseen.push(Foreseen {
                inbox,
                index,
                admission,
            });
        }
    }

    fn has_the_turn(&self, state: &State) -> bool {
        state.phase == Phase::Together && state.members[self.index].stage == Stage::Running
    }

    /// Held while a member of a broken group has a transaction of its own.
    pub(super) async fn solo(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.solo.lock().await
    }

    /// Asks again whenever something has changed.
    async fn wait<A>(&self, mut answer: impl FnMut(&mut State) -> Option<A>) -> A {
        loop {
            if let Some(answer) = answer(&mut self.shared.lock()) {
                return answer;
            }
            self.shared.bells[self.index].notified().await;
        }
    }
}

/// A member that takes part.
pub(super) struct Joined<'a>(&'a Seat);

impl Joined<'_> {
    pub(super) async fn turn(&self) -> Turn {
        let index = self.0.index;
        let turn = |state: &mut State| {
            if state.phase != Phase::Together {
                return Some(Turn::Broken);
            }
            let holds = |earlier: &Member| matches!(earlier.stage, Stage::Left(left) if !left.lets_follow());
            if state.earlier_of_key(index).any(holds) {
                let left = Left {
                    handled: false,
                    parked: false,
                };
                state.go(index, Stage::Left(left));
                return Some(Turn::Deferred);
            }
            if !state.members[..index].iter().all(Member::has_passed) {
                return None;
            }
            state.members[index].stage = Stage::Running;
            Some(state.tx.take().map_or(Turn::First, Turn::Next))
        };
        self.0.wait(turn).await
    }

    /// Gives the transaction to whoever is next.
    pub(super) fn pass_on(&self, tx: AnyTx) {
        let mut state = self.0.shared.lock();
        state.members[self.0.index].stage = Stage::Ran;
        // Somebody may have left in a way that broke the group meanwhile; the transaction then goes with it.
        state.tx = Some(tx).filter(|_| state.phase == Phase::Together);
        drop(state);
        self.0.shared.ring();
    }

    pub(super) async fn verdict(&self) -> Verdict {
        let verdict = |state: &mut State| match state.phase {
            Phase::Committed => Some(Verdict::Committed),
            Phase::Broken => Some(Verdict::Broken),
            Phase::Together if state.members.iter().all(Member::has_passed) => {
                let tx = state.tx.take()?;
                state.phase = Phase::Committing(self.0.index);
                Some(Verdict::Commit(tx))
            }
            Phase::Together | Phase::Committing(_) => None,
        };
        self.0.wait(verdict).await
    }

    pub(super) fn committed(&self) {
        self.0.shared.lock().phase = Phase::Committed;
        self.0.shared.ring();
    }
}

/// Whatever ends a member's part before the commit (an error, a panic, a timeout, a stop) ends the group. Once the
/// commit is under way, only the member that does it can tell how it ends.
impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut state = self.0.shared.lock();
        let left = matches!(state.members[self.0.index].stage, Stage::Left(_));
        let decided = match state.phase {
            Phase::Committed => true,
            Phase::Committing(committer) => committer != self.0.index,
            Phase::Together | Phase::Broken => false,
        };
        if !left && !decided {
            state.phase = Phase::Broken;
            state.tx = None;
        }
        drop(state);
        self.0.shared.ring();
    }
}

impl Member {
    fn has_passed(&self) -> bool {
        matches!(self.stage, Stage::Ran | Stage::Aside | Stage::Left(_))
    }
}

impl Left {
    /// Whether the next of the key may be handled.
    pub(super) fn lets_follow(self) -> bool {
        self.handled && !self.parked
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever the last change may concern: the next in turn, or all where there is a verdict or a leaver.
    fn ring(&self) {
        let state = self.lock();
        let next = state.members.iter().position(|m| !m.has_passed());
        match next {
            Some(next) if state.phase == Phase::Together => {
                drop(state);
                self.bells[next].notify_one();
            }
            _ => {
                drop(state);
                self.bells.iter().for_each(Notify::notify_one);
            }
        }
    }
}
