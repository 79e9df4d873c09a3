// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Runs steps on the real tracker and on the naive one, and compares all that both say after each.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use live_object_tracker::{
    Attribution, Cause, Death, Description, End, ErrorKind, Format, Ref, Stats, Tracker,
};

use crate::api::{Api, Kept, Result};
use crate::naive::{Described, Life, Model, Record};
use crate::steps::{
    About, DESTROYED, ECHO, MADE_UP, Observing, Pool, SCOPES, Step, TRACKERS, Which,
};

/// How many of the latest deaths must be on record; older records may be gone. The small log has seven, and one call may
/// end more than that in an order of its own.
const ON_RECORD: usize = if cfg!(lot_small) { 0 } else { 64 };

/// How many refs of earlier programs are remembered.
const EARLIER: usize = 4096;

/// A difference between the tracker and the model.
pub struct Difference {
    /// The number of the step after which it was seen.
    pub step: usize,
    pub what: String,
}

/// What is remembered of the programs before this one: their refs, which are all dead.
#[derive(Default)]
pub struct Earlier {
    /// Added to all addresses, so that programs on other threads have others.
    pub shift: usize,
    dead: VecDeque<Ref>,
    next: usize,
}

/// What an observer was told, or did.
#[derive(PartialEq, Eq, Debug)]
enum Event {
    Told {
        observer: u32,
        ends: Vec<End>,
        /// How many are tracked, as the tracker says during the call.
        tracked: Result<usize>,
        /// The refs of the ends that are live during the call.
        live: usize,
    },
    Echoed(Result<Ref>, Result<()>),
    Left(Result<()>),
}

thread_local! {
    static LOG: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
    static DEPTH: RefCell<u32> = const { RefCell::new(0) };
}

#[derive(Clone, Copy)]
struct Watch {
    tracker: Tracker,
    observer: u32,
    observing: Observing,
    shift: usize,
}

/// What an observer registers that calls back.
fn echoed(shift: usize) -> Description<'static> {
    Description {
        object: ECHO + shift,
        scope: SCOPES[0],
        kind: 3,
        ancestors: None,
        user: 77,
    }
}

/// An address that nothing is ever registered at, nor at those after it.
const NOWHERE: usize = 0x4321_0000;

const NO_REF: Ref = Ref {
    object: 1,
    epoch: u64::MAX,
};

/// A call that ended something.
#[derive(Clone, Copy)]
struct Call {
    /// When it was, at the earliest and at the latest.
    from: u64,
    to: u64,
    /// How many had ended before it.
    ended_before: usize,
}

type Checked = std::result::Result<(), String>;

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, model: &T, tracker: &T) -> Checked {
    if model == tracker {
        return Ok(());
    }
    let what = what();
    Err(format!(
        "{what}:\n    model   {model:x?}\n    tracker {tracker:x?}"
    ))
}

/// Runs a program. The first two trackers exist at its beginning, and no tracker after its end.
pub fn run<A: Api>(
    api: A,
    pool: Pool,
    steps: &[Step],
    earlier: &mut Earlier,
) -> std::result::Result<(), Difference> {
    let mut at = 0;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(api, pool, earlier.shift)?;
        for (number, step) in steps.iter().enumerate() {
            at = number;
            run.step(step)?;
            run.check(earlier)?;
        }
        at = steps.len();
        run.finish(earlier)
    }));
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(what)) => Err(Difference { step: at, what }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let what = format!("a panic: {}", text.unwrap_or_default());
            Err(Difference { step: at, what })
        }
    }
}

struct Run<A> {
    api: A,
    pool: Pool,
    shift: usize,
    model: Model,
    /// The handles of the program's trackers, also after they are destroyed.
    trackers: [Tracker; TRACKERS],
    destroyed: Tracker,
    watches: Vec<Watch>,
    observers: u32,
    /// Dropped last: observers may run until their trackers are destroyed.
    kept: Vec<Kept>,
    attributions: Vec<Attribution>,
    /// For each death of the model's list, its call.
    calls: Vec<Call>,
    internal_errors: u64,
    checks: usize,
}

fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn described(about: &Description<'_>) -> Described<'static> {
    assert!(about.ancestors.is_none());
    Described {
        object: about.object,
        scope: about.scope,
        kind: about.kind,
        ancestors: None,
        user: about.user,
    }
}

impl<A: Api> Run<A> {
    fn new(api: A, pool: Pool, shift: usize) -> std::result::Result<Self, String> {
        let never = Tracker::from_raw(0);
        let mut run = Self {
            api,
            pool,
            shift,
            model: Model::new(),
            trackers: [never; TRACKERS],
            destroyed: never,
            watches: Vec::new(),
            observers: 0,
            kept: Vec::new(),
            attributions: Vec::new(),
            calls: Vec::new(),
            internal_errors: 0,
            checks: 0,
        };
        LOG.take();
        DEPTH.set(0);
        for number in 0..2 {
            run.new_tracker(number)?;
        }
        let stats = api
            .stats(run.trackers[0])
            .map_err(|error| format!("{error:?}"))?;
        run.internal_errors = stats.internal_errors;
        Ok(run)
    }

    fn new_tracker(&mut self, number: usize) -> Checked {
        let made = self.api.new_tracker("model \"1\"");
        let tracker = made.map_err(|error| format!("a new tracker: {error:?}"))?;
        let used = self.trackers.contains(&tracker) || tracker == self.destroyed;
        if used || tracker.to_raw() == 0 {
            return Err(format!("the handle {tracker:x?} was given out before"));
        }
        self.trackers[number] = tracker;
        self.model.add_tracker(tracker);
        Ok(())
    }

    fn tracker(&self, number: usize) -> Tracker {
        match number {
            DESTROYED => self.destroyed,
            MADE_UP => Tracker::from_raw(self.trackers[0].to_raw() ^ 1 << 40),
            number => self.trackers[number],
        }
    }

    fn address(&self, place: usize) -> usize {
        match self.pool.address(place) {
            0 => 0,
            address => address.wrapping_add(self.shift),
        }
    }

    fn all_addresses(&self) -> impl Iterator<Item = usize> {
        (0..self.pool.len()).map(|place| self.address(place))
    }

    fn addresses(&self, list: &[usize]) -> Vec<usize> {
        list.iter().map(|place| self.address(*place)).collect()
    }

    fn which(&self, which: Which) -> Ref {
        let latest = |nth: usize| {
            let lives = self.model.lives.iter().rev();
            lives
                .map(|life| life.reference)
                .nth(nth)
                .unwrap_or(Ref::NULL)
        };
        match which {
            Which::Latest(nth) => latest(nth),
            Which::OtherEpoch(nth, bit) => {
                let Ref { object, epoch } = latest(nth);
                let epoch = epoch ^ 1 << bit;
                Ref { object, epoch }
            }
            Which::OtherObject(nth, place) => Ref {
                object: self.address(place),
                epoch: latest(nth).epoch,
            },
            Which::Untracked(place) => Ref {
                object: self.address(place),
                epoch: 0,
            },
            Which::MadeUp(place, epoch) => Ref {
                object: self.address(place),
                epoch,
            },
        }
    }

    // Steps -----------------------------------------------------------------------------------------

    fn step(&mut self, step: &Step) -> Checked {
        let ended_before = self.model.dead.len();
        let from = now_ns();
        self.run_step(step)?;
        let to = now_ns();
        self.told(step, ended_before)?;
        let call = Call {
            from,
            to,
            ended_before,
        };
        self.calls.resize(self.model.dead.len(), call);
        Ok(())
    }

    fn run_step(&mut self, step: &Step) -> Checked {
        let (api, what) = (self.api, || "the answer".to_owned());
        // A hook: the same call on both.
        macro_rules! both {
            ($method:ident, $($argument:expr),*) => {
                same(what, &self.model.$method($($argument),*), &api.$method($($argument),*))
            };
        }
        match step {
            Step::Track(about) => self.register(about, false),
            Step::Create(about) => self.register(about, true),
            Step::Destroy { tracker, object } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                let expected = self.model.destroy_with(tracker, object, 0);
                same(what, &expected, &api.destroy(tracker, object))
            }
            Step::DestroyWith {
                tracker,
                object,
                kinds,
            } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                both!(destroy_with, tracker, object, *kinds)
            }
            Step::Erase { tracker, object } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                both!(erase, tracker, object)
            }
            Step::ParentDestroy { tracker, object } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                both!(parent_destroy, tracker, object)
            }
            Step::Move {
                tracker,
                object,
                ancestors,
            } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                let ancestors = self.addresses(&ancestors.0);
                both!(move_to, tracker, object, &ancestors)
            }
            Step::Detach { tracker, object } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                let expected = self.model.move_to(tracker, object, &[]);
                same(what, &expected, &api.detach(tracker, object))
            }
            Step::OpaqueMutation { tracker, object } => {
                let (tracker, object) = (self.tracker(*tracker), self.address(*object));
                both!(opaque_mutation, tracker, object)
            }
            Step::ClearScope { tracker, scope } => {
                both!(clear_scope, self.tracker(*tracker), *scope)
            }
            Step::Release(which) => both!(release, self.which(*which)),
            Step::SetUser { which, user } => both!(set_user, self.which(*which), *user),
            Step::Enter { by, cause } => {
                let next = Attribution {
                    by: self.which(*by),
                    cause: Cause::from_number(*cause),
                };
                let previous = api.enter(next);
                same(what, &self.model.attribution, &previous)?;
                self.attributions.push(previous);
                self.model.attribution = next;
                Ok(())
            }
            Step::Leave => {
                if let Some(previous) = self.attributions.pop() {
                    api.leave(previous);
                    self.model.attribution = previous;
                }
                Ok(())
            }
            Step::NewTracker { tracker } => {
                let exists = self.model.registry(self.trackers[*tracker]).is_ok();
                if exists {
                    Ok(())
                } else {
                    self.new_tracker(*tracker)
                }
            }
            Step::DestroyTracker { tracker } => {
                let tracker = self.tracker(*tracker);
                both!(destroy_tracker, tracker)?;
                self.destroyed = tracker;
                Ok(())
            }
            Step::Observe { tracker, observing } => self.observe(*tracker, *observing),
            Step::ExactBegin { tracker } => both!(exact_begin, self.tracker(*tracker)),
            Step::ExactEnd { tracker } => both!(exact_end, self.tracker(*tracker)),
            Step::Count {
                tracker,
                scope,
                kind,
            } => {
                let tracker = self.tracker(*tracker);
                let lives = self.model.live_lives(tracker, *scope, *kind);
                let expected = lives.map(|lives| lives.len());
                same(what, &expected, &api.count(tracker, *scope, *kind))
            }
            Step::ForEach {
                tracker,
                scope,
                kind,
                stop_after,
            } => {
                let tracker = self.tracker(*tracker);
                let lives = self.model.live_lives(tracker, *scope, *kind);
                let seen = api.visited(tracker, *scope, *kind, *stop_after);
                let expected = lives.as_ref().map(|lives| lives.len().min(stop_after + 1));
                same(what, &expected.map_err(|error| *error), &count_of(&seen))?;
                let shown: Vec<_> = lives.iter().flatten().map(|life| shown(life)).collect();
                match seen.iter().flatten().find(|seen| !shown.contains(seen)) {
                    Some(wrong) => Err(format!("visited {wrong:x?}, of {shown:x?}")),
                    None => Ok(()),
                }
            }
            Step::Children { which, stop_after } => {
                let parent = self.which(*which);
                let expected = self.model.live(parent).map(|life| {
                    let life = &self.model.lives[life];
                    let registry = self.model.registry(life.tracker);
                    let registry = registry.expect("what is live is in a tracker");
                    registry
                        .tracked_children(parent.object)
                        .len()
                        .min(stop_after + 1)
                });
                same(
                    what,
                    &expected,
                    &count_of(&api.children(parent, *stop_after)),
                )
            }
            Step::Misuse { tracker, misuse } => {
                let tracker = self.tracker(*tracker);
                if self.model.registry(tracker).is_err() {
                    return Ok(()); // Two errors at once: either will do.
                }
                match api.misuse(tracker, *misuse) {
                    Some((answer, expected)) => same(what, &Err(expected), &answer),
                    None => Ok(()),
                }
            }
        }
    }

    fn register(&mut self, about: &About, is_new: bool) -> Checked {
        let tracker = self.tracker(about.tracker);
        let object = self.address(about.object);
        let ancestors = about.ancestors.as_ref().map(|list| self.addresses(&list.0));
        let ancestors = ancestors.as_deref();
        let (scope, kind, user) = (about.scope, about.kind, about.user);
        let real = Description {
            object,
            scope,
            kind,
            ancestors,
            user,
        };
        let naive = Described {
            object,
            scope,
            kind,
            ancestors,
            user,
        };
        let answer = if is_new {
            self.api
                .create(tracker, &real)
                .map(|created| (created, user))
        } else {
            self.api.track(tracker, &real)
        };
        let given = answer.map_or(NO_REF, |(given, _)| given);
        let lives = self.model.lives.len();
        let expected = if is_new {
            let created = self.model.create(tracker, &naive, given);
            created.map(|created| (created, user))
        } else {
            self.model.track(tracker, &naive, given)
        };
        same(|| "the answer".to_owned(), &expected, &answer)?;
        let is_started = self.model.lives.len() > lives;
        if is_started {
            self.check_new(given, object)
        } else {
            Ok(())
        }
    }

    /// A ref that names a new incarnation has the right address and an epoch that nobody had.
    fn check_new(&self, given: Ref, object: usize) -> Checked {
        let (_, before) = self.model.lives.split_last().expect("it is the last");
        let is_used = |life: &Life| life.reference.epoch == given.epoch;
        if given.object != object || given.epoch == 0 || before.iter().any(is_used) {
            return Err(format!(
                "a new incarnation of {object:#x} has the ref {given:x?}"
            ));
        }
        Ok(())
    }

    // Observers -------------------------------------------------------------------------------------

    fn observe(&mut self, number: usize, observing: Option<Observing>) -> Checked {
        let tracker = self.tracker(number);
        let exists = self.model.registry(tracker).map(|_| ());
        self.observers += 1;
        let observer = self.observers;
        let (api, shift) = (self.api, self.shift);
        let watch = |observing| Watch {
            tracker,
            observer,
            observing,
            shift,
        };
        let function = observing.map(|observing| {
            let watch = watch(observing);
            Arc::new(move |ends: &[End]| note(api, watch, ends)) as _
        });
        let set = self.api.set_observer(tracker, function);
        let answer = set.map(|kept| self.kept.push(kept));
        same(|| "the answer".to_owned(), &exists, &answer)?;
        if exists.is_ok() {
            self.watches.retain(|watch| watch.tracker != tracker);
            self.watches.extend(observing.map(watch));
        }
        Ok(())
    }

    /// Compares what observers were told with what ended, and does what they did.
    fn told(&mut self, step: &Step, ended_before: usize) -> Checked {
        let mut events = LOG.take().into_iter();
        let ended = &self.model.dead[ended_before..];
        if let Some(first) = ended.first() {
            let tracker = self.model.lives[*first].tracker;
            let watch = self.watches.iter().find(|watch| watch.tracker == tracker);
            if let Some(watch) = watch.copied() {
                self.told_one(watch, ended_before, events.next())?;
                match watch.observing {
                    Observing::Asks => {}
                    Observing::Echoes => self.echoed(watch, &mut events)?,
                    Observing::Leaves => {
                        let answer = self.model.registry(tracker).map(|_| ());
                        let left = events.next();
                        same(
                            || "an observer".to_owned(),
                            &Some(Event::Left(answer)),
                            &left,
                        )?;
                        self.watches.retain(|watch| watch.tracker != tracker);
                    }
                }
            }
        }
        if let Step::DestroyTracker { tracker } = step {
            let tracker = self.tracker(*tracker);
            self.watches.retain(|watch| watch.tracker != tracker);
        }
        same(
            || "observers were told more".to_owned(),
            &None,
            &events.next(),
        )
    }

    fn told_one(&mut self, watch: Watch, ended_before: usize, event: Option<Event>) -> Checked {
        let ended = self.model.dead[ended_before..].iter();
        let mut ends: Vec<End> = ended.map(|life| end_of(&self.model.lives[*life])).collect();
        sort_ends(&mut ends);
        let registry = self.model.registry(watch.tracker);
        let expected = Event::Told {
            observer: watch.observer,
            ends,
            tracked: registry.map(|registry| registry.known.len() - registry.placeholders()),
            live: 0,
        };
        same(
            || "an observer was told".to_owned(),
            &Some(expected),
            &event,
        )
    }

    /// What [`Observing::Echoes`] did.
    fn echoed(&mut self, watch: Watch, events: &mut impl Iterator<Item = Event>) -> Checked {
        let ended_before = self.model.dead.len();
        let mut event = events.next();
        let nested = match &event {
            Some(Event::Told { .. }) => std::mem::replace(&mut event, events.next()),
            _ => None,
        };
        let given = match &event {
            Some(Event::Echoed(Ok(given), _)) => *given,
            _ => NO_REF,
        };
        let created = self
            .model
            .create(watch.tracker, &described(&echoed(self.shift)), given);
        let destroyed = self.model.destroy_with(watch.tracker, ECHO + self.shift, 0);
        let expected = Event::Echoed(created, destroyed);
        same(
            || "an observer's own calls".to_owned(),
            &Some(expected),
            &event,
        )?;
        if created.is_ok() {
            self.check_new(given, ECHO + self.shift)?;
            self.told_one(watch, ended_before, nested)
        } else {
            same(|| "observers were told more".to_owned(), &None, &nested)
        }
    }

    // Comparisons -----------------------------------------------------------------------------------

    /// Compares everything.
    fn check(&mut self, earlier: &mut Earlier) -> Checked {
        self.checks += 1;
        self.check_refs(earlier)?;
        for tracker in self.trackers {
            self.check_tracker(tracker)?;
            check_invariants(tracker)?;
            if self.checks.is_multiple_of(32) {
                self.check_reports(tracker)?;
            }
        }
        Ok(())
    }

    fn check_refs(&self, earlier: &mut Earlier) -> Checked {
        let api = self.api;
        for life in &self.model.lives {
            let is_live = life.death.is_none();
            if is_live != api.is_live(life.reference) {
                let (a, b) = if is_live {
                    ("live", "dead")
                } else {
                    ("dead", "live")
                };
                return Err(format!(
                    "{:x?} is {a}, and the tracker says {b}",
                    life.reference
                ));
            }
        }
        let all = self.model.dead.len();
        let dead = self.model.dead.iter().zip(&self.calls).rev();
        for (position, (life, call)) in dead.enumerate() {
            // The model does not know in which order the ends of one call are recorded.
            let must_be_known = all - call.ended_before <= ON_RECORD;
            // All of the latest, and some of the others.
            if position < 64 || (position + self.checks).is_multiple_of(64) {
                self.check_death(&self.model.lives[*life], *call, must_be_known)?;
            }
        }
        for _ in 0..4.min(earlier.dead.len()) {
            earlier.next = (earlier.next + 1) % earlier.dead.len();
            let old = earlier.dead[earlier.next];
            if api.is_live(old) {
                return Err(format!("{old:x?} of an earlier program is live again"));
            }
        }
        self.check_made_up_refs()
    }

    fn check_death(&self, life: &Life, call: Call, must_be_known: bool) -> Checked {
        let Call { from, to, .. } = call;
        let record = life.death.expect("it is in the list of the dead");
        match self.api.death(life.reference) {
            None if !must_be_known => Ok(()),
            Some(death) if (from..=to).contains(&death.time_ns) => {
                let expected = death_of(life.kind, record, death.time_ns);
                same(
                    || format!("the death of {:x?}", life.reference),
                    &expected,
                    &death,
                )
            }
            other => Err(format!(
                "the death of {:x?}: {record:x?} between {from} and {to} ns; \
                 the tracker says {other:x?}",
                life.reference
            )),
        }
    }

    fn check_made_up_refs(&self) -> Checked {
        let lives = &self.model.lives;
        if lives.is_empty() {
            return Ok(());
        }
        let place = self.checks % self.pool.len();
        let object = self.address(place);
        let Ref { epoch, .. } = lives[self.checks % lives.len()].reference;
        let bit = 1 << (self.checks % 64);
        for epoch in [epoch, epoch + 1, epoch - 1, epoch ^ 1, epoch ^ bit, bit, 0] {
            let reference = Ref { object, epoch };
            let is_live = self.model.live(reference).is_ok();
            same(
                || format!("is {reference:x?} live"),
                &is_live,
                &self.api.is_live(reference),
            )?;
            let user = self.api.user(reference);
            let expected = self.model.live(reference).map(|life| lives[life].user);
            same(|| format!("user of {reference:x?}"), &expected, &user)?;
            // No object ever is at this address, so the ref was never handed out.
            let object = NOWHERE + self.checks % 64;
            let death = self.api.death(Ref { object, epoch });
            same(|| format!("death of made-up {epoch:#x}"), &None, &death)?;
        }
        Ok(())
    }

    fn check_tracker(&self, tracker: Tracker) -> Checked {
        let api = self.api;
        let Ok(registry) = self.model.registry(tracker) else {
            same(
                || "stats".to_owned(),
                &Err(ErrorKind::NoTracker),
                &api.stats(tracker),
            )?;
            let found = api.find(tracker, self.address(0));
            same(|| "find".to_owned(), &Err(ErrorKind::NoTracker), &found)?;
            return same(|| "exact".to_owned(), &false, &api.is_exact(tracker));
        };
        let anchors = registry.placeholders();
        let tracked = registry.known.len() - anchors;
        let stats = Stats {
            tracked,
            anchors,
            created: tracked as u64 + registry.ended + registry.released,
            ended: registry.ended,
            released: registry.released,
            missed_ends: registry.missed_ends,
            internal_errors: self.internal_errors,
            exact_sources: registry.exact_sources,
        };
        same(|| "stats".to_owned(), &Ok(stats), &api.stats(tracker))?;
        let is_exact = registry.exact_sources > 0;
        same(|| "exact".to_owned(), &is_exact, &api.is_exact(tracker))?;
        for object in self.all_addresses().chain([self.shift + ECHO, 0x99]) {
            let expected = self.model.find(tracker, object);
            let found = api.find(tracker, object);
            same(|| format!("find {object:#x}"), &expected, &found)?;
        }
        self.check_counts(tracker)?;
        self.check_tree(tracker)
    }

    fn check_counts(&self, tracker: Tracker) -> Checked {
        let all = self
            .model
            .live_lives(tracker, None, None)
            .expect("it exists");
        let mut expected: Vec<_> = all.iter().map(|life| shown(life)).collect();
        let seen = self.api.visited(tracker, None, None, usize::MAX);
        let mut seen = seen.map_err(|error| format!("visiting: {error:?}"))?;
        sort(&mut expected);
        sort(&mut seen);
        same(|| "visited".to_owned(), &expected, &seen)?;
        for scope in SCOPES.into_iter().map(Some).chain([None, Some(1)]) {
            for kind in [None, Some(0), Some(1), Some(2), Some(15)] {
                let is_it = |life: &&&Life| {
                    scope.is_none_or(|scope| life.scope == scope)
                        && kind.is_none_or(|kind| life.kind == kind)
                };
                let count = all.iter().filter(is_it).count();
                let answer = self.api.count(tracker, scope, kind);
                same(
                    || format!("count of {scope:?} {kind:?}"),
                    &Ok(count),
                    &answer,
                )?;
            }
        }
        Ok(())
    }

    /// Parents, children, users and deaths of what is live.
    fn check_tree(&self, tracker: Tracker) -> Checked {
        let api = self.api;
        let registry = self.model.registry(tracker).expect("it exists");
        // Once for all: to look for each parent from the beginning takes too long in a wide pool.
        let by_object: HashMap<usize, _> = match self.pool {
            Pool::Dozen => HashMap::new(),
            Pool::Wide => registry
                .known
                .iter()
                .map(|known| (known.object, known))
                .collect(),
        };
        let tracked_parent = |object: usize| match self.pool {
            Pool::Dozen => registry.tracked_parent(object),
            Pool::Wide => {
                let mut parent = by_object.get(&by_object[&object].parent);
                while let Some(known) = parent
                    && known.life.is_none()
                {
                    parent = by_object.get(&known.parent);
                }
                parent.and_then(|known| known.life)
            }
        };
        let live = registry.known.iter().filter_map(|known| known.life);
        let with_parent = |life: usize| {
            (
                life,
                tracked_parent(self.model.lives[life].reference.object),
            )
        };
        let live: Vec<(usize, Option<usize>)> = live.map(with_parent).collect();
        for (number, parent) in &live {
            let life = &self.model.lives[*number];
            let Life { reference, .. } = *life;
            let parent = parent.map(|parent| self.model.lives[parent].reference);
            same(
                || format!("parent of {reference:x?}"),
                &Ok(parent),
                &api.parent(reference),
            )?;
            let is_child = |(_, parent): &&(usize, Option<usize>)| *parent == Some(*number);
            let children = live.iter().filter(is_child);
            let mut expected: Vec<_> = children
                .map(|(child, _)| shown(&self.model.lives[*child]))
                .collect();
            sort(&mut expected);
            let children = api.children(reference, usize::MAX).map(|mut children| {
                sort(&mut children);
                children
            });
            same(
                || format!("children of {reference:x?}"),
                &Ok(expected),
                &children,
            )?;
            same(
                || format!("user of {reference:x?}"),
                &Ok(life.user),
                &api.user(reference),
            )?;
            same(
                || format!("death of live {reference:x?}"),
                &None,
                &api.death(reference),
            )?;
        }
        Ok(())
    }

    fn check_reports(&self, tracker: Tracker) -> Checked {
        let api = self.api;
        let json = api.report(tracker, Format::Json);
        let Ok(registry) = self.model.registry(tracker) else {
            return same(|| "report".to_owned(), &Err(ErrorKind::NoTracker), &json);
        };
        let json = json.map_err(|error| format!("JSON: {error:?}"))?;
        let parsed: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| format!("JSON: {error}: {json}"))?;
        let hex = |number: u64| serde_json::Value::from(format!("{number:#x}"));
        let nothing = serde_json::Value::Null;
        let mut expected: Vec<String> = Vec::new();
        for known in &registry.known {
            let life = known.life.map(|life| &self.model.lives[life]);
            let parent = match known.parent {
                0 => nothing.clone(),
                parent => hex(parent as u64),
            };
            let user = life.map_or(0, |life| life.user as u64);
            let node = serde_json::json!({
                "object": hex(known.object as u64),
                "epoch": life.map_or(nothing.clone(), |life| hex(life.reference.epoch)),
                "parent": parent,
                "scope": hex(known.scope),
                "kind": life.map_or(nothing.clone(), |life| life.kind.into()),
                "user": if user == 0 { nothing.clone() } else { hex(user) },
            });
            expected.push(node.to_string());
        }
        let nodes = parsed["nodes"].as_array();
        let nodes = nodes.ok_or_else(|| format!("JSON without nodes: {json}"))?;
        let mut reported: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        expected.sort();
        reported.sort();
        same(
            || "nodes of the JSON report".to_owned(),
            &expected,
            &reported,
        )?;
        let placeholders = registry.placeholders();
        let figures = (
            Some("model \"1\""),
            Some((registry.known.len() - placeholders) as u64),
            Some(placeholders as u64),
        );
        let of = |name: &str| parsed[name].as_u64();
        let answered = (parsed["tracker"].as_str(), of("tracked"), of("anchors"));
        same(
            || "figures of the JSON report".to_owned(),
            &figures,
            &answered,
        )?;

        let text = api.report(tracker, Format::Text);
        let lines = text.map(|text| text.lines().count());
        same(
            || "lines of the text report".to_owned(),
            &Ok(registry.known.len() + 1),
            &lines,
        )?;
        let dot = api.report(tracker, Format::Dot);
        let arrows = dot.map(|dot| dot.matches("->").count());
        let with_parent = registry
            .known
            .iter()
            .filter(|known| known.parent != 0)
            .count();
        same(
            || "arrows of the DOT report".to_owned(),
            &Ok(with_parent),
            &arrows,
        )
    }

    /// Compares the reports once more, and ends the program: all its trackers are destroyed.
    fn finish(mut self, earlier: &mut Earlier) -> Checked {
        for tracker in self.trackers {
            self.check_reports(tracker)?;
        }
        while !self.attributions.is_empty() {
            self.step(&Step::Leave)?;
        }
        for tracker in 0..TRACKERS {
            self.step(&Step::DestroyTracker { tracker })?;
            self.check(earlier)?;
        }
        for life in &self.model.lives {
            if earlier.dead.len() == EARLIER {
                earlier.dead.pop_front();
            }
            earlier.dead.push_back(life.reference);
        }
        Ok(())
    }
}

/// What the observers do: they note what they are told, and more.
fn note<A: Api>(api: A, watch: Watch, ends: &[End]) {
    let mut sorted = ends.to_vec();
    for end in &mut sorted {
        // When it was is compared in the records.
        end.death.time_ns = 0;
    }
    sort_ends(&mut sorted);
    let tracked = api.stats(watch.tracker).map(|stats| stats.tracked);
    let live = ends.iter().filter(|end| api.is_live(end.reference)).count();
    let event = Event::Told {
        observer: watch.observer,
        ends: sorted,
        tracked,
        live,
    };
    LOG.with_borrow_mut(|log| log.push(event));
    if DEPTH.with_borrow(|depth| *depth > 0) {
        return;
    }
    DEPTH.set(1);
    let event = match watch.observing {
        Observing::Asks => None,
        Observing::Echoes => {
            let created = api.create(watch.tracker, &echoed(watch.shift));
            Some(Event::Echoed(
                created,
                api.destroy(watch.tracker, ECHO + watch.shift),
            ))
        }
        Observing::Leaves => Some(Event::Left(
            api.set_observer(watch.tracker, None).map(|_| ()),
        )),
    };
    DEPTH.set(0);
    LOG.with_borrow_mut(|log| log.extend(event));
}

fn shown(life: &Life) -> (Ref, usize) {
    (life.reference, life.user)
}

fn sort(list: &mut [(Ref, usize)]) {
    list.sort_unstable_by_key(|(shown, user)| (shown.object, shown.epoch, *user));
}

fn sort_ends(ends: &mut [End]) {
    ends.sort_unstable_by_key(|end| end.reference.epoch);
}

fn death_of(kind: u8, record: Record, time_ns: u64) -> Death {
    let Record { cause, by } = record;
    Death {
        by,
        time_ns,
        cause,
        kind,
    }
}

fn end_of(life: &Life) -> End {
    let record = life.death.expect("it has ended");
    End {
        reference: life.reference,
        death: death_of(life.kind, record, 0),
        scope: life.scope,
        user: life.user,
    }
}

fn count_of<T>(seen: &Result<Vec<T>>) -> Result<usize> {
    seen.as_ref().map(Vec::len).map_err(|error| *error)
}

/// What the core states about its own nodes, in builds that have assertions.
fn check_invariants(tracker: Tracker) -> Checked {
    if cfg!(not(debug_assertions)) {
        return Ok(());
    }
    // A handle without a tracker has no nodes.
    let checked = std::panic::catch_unwind(|| tracker.check_invariants().ok());
    checked
        .map(drop)
        .map_err(|panic| match panic.downcast_ref::<String>() {
            Some(message) => format!("an invariant of the core is broken: {message}"),
            None => "an invariant of the core is broken".to_owned(),
        })
}
