// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Eight threads at work on the same trackers, scopes and addresses.
//!
//! A thread knows all about the objects that only it reports. Of those that all report it knows
//! what must never be seen. `LOT_STRESS_SECONDS` says how long all of this takes (5), and
//! `LOT_STRESS_SEED` repeats the choices of the threads, though not their order.

#[path = "model/api.rs"]
#[allow(dead_code)]
mod api;
#[path = "model/compare.rs"]
mod compare;
#[path = "model/naive.rs"]
mod naive;
#[path = "model/steps.rs"]
mod steps;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use live_object_tracker::{Cause, Description, End, Format, Ref, Tracker, Visit};

use naive::{Described, Model};

const THREADS: usize = 8;
const TESTS: u32 = 6;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// The share of the time that one test has.
fn share() -> Duration {
    Duration::from_secs(number("LOT_STRESS_SECONDS").unwrap_or(5)) / TESTS
}

fn random() -> Rng {
    let seed = number("LOT_STRESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("LOT_STRESS_SEED={seed}");
    Rng::with_seed(seed)
}

/// What must not happen and did.
#[derive(Default)]
struct Wrong(Mutex<Vec<String>>);

impl Wrong {
    fn add(&self, what: String) {
        let mut list = self.0.lock().unwrap();
        if list.len() < 20 {
            list.push(what);
        }
    }

    fn check(&self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right {
            self.add(what());
        }
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    fn finish(&self) {
        let list = self.0.lock().unwrap();
        assert!(list.is_empty(), "wrong:\n{}", list.join("\n"));
    }
}

/// Ends the process if a thread does not come back: a thread that hangs cannot be joined.
struct Watchdog {
    is_done: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    const PATIENCE: Duration = Duration::from_secs(30);

    /// `progress` must change while all is well.
    fn new(progress: Arc<[AtomicU64]>) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let done = is_done.clone();
        let thread = thread::spawn(move || {
            let mut seen: Vec<_> = progress
                .iter()
                .map(|_| (u64::MAX, Instant::now()))
                .collect();
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                for (number, (last, since)) in seen.iter_mut().enumerate() {
                    let now = progress[number].load(Ordering::Relaxed);
                    if now != *last {
                        (*last, *since) = (now, Instant::now());
                    } else if since.elapsed() > Self::PATIENCE {
                        eprintln!("wrong: thread {number} hangs in its call {now}");
                        std::process::abort();
                    }
                }
            }
        });
        let thread = Some(thread);
        Self { is_done, thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn counters() -> Arc<[AtomicU64]> {
    (0..THREADS).map(|_| AtomicU64::new(0)).collect()
}

// Objects of one thread, and objects of all ------------------------------------------------------------

/// Scopes of objects that one thread alone reports: never cleared.
const OWN_SCOPES: [u64; 3] = [1, 2, 3];
/// Scopes of objects that all threads report.
const SHARED_SCOPES: [u64; 2] = [10, 11];

const OWN: usize = 10;
const SHARED: usize = 6;

fn own_address(thread: usize, number: usize) -> usize {
    // Threads are neighbours in memory.
    0x7f00_0000_0000 + number * 0x400 + thread * 0x40
}

fn shared_address(number: usize) -> usize {
    0x7f00_0010_0000 + number * 0x40
}

fn list_of(
    random: &mut Rng,
    count: usize,
    most: usize,
    address: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    random.shuffle(&mut numbers);
    numbers.truncate(random.usize(0..=most));
    numbers.into_iter().map(address).collect()
}

struct Worker {
    number: usize,
    random: Rng,
    tracker: Tracker,
    /// What this thread knows of its own objects.
    model: Model,
    /// Refs of shared objects with their user pointers, which nobody changes.
    seen: VecDeque<(Ref, usize)>,
    dead: VecDeque<Ref>,
    users: usize,
}

impl Worker {
    fn new(number: usize, random: Rng, tracker: Tracker) -> Self {
        let mut model = Model::new();
        model.add_tracker(tracker);
        Self {
            number,
            random,
            tracker,
            model,
            seen: VecDeque::new(),
            dead: VecDeque::new(),
            users: 0,
        }
    }

    /// A user pointer that nobody else gives.
    fn new_user(&mut self) -> usize {
        self.users += 1;
        self.users * THREADS + self.number
    }

    /// A call for an object of this thread alone, and a look at all of them.
    fn own_step(&mut self, wrong: &Wrong) {
        let tracker = self.tracker;
        let thread = self.number;
        let address = |number| own_address(thread, number);
        let object = address(self.random.usize(0..OWN));
        let scope = OWN_SCOPES[self.random.usize(0..OWN_SCOPES.len())];
        let kind = self.random.u8(0..3);
        let user = self.new_user();
        let mut ancestors = list_of(&mut self.random, OWN, 4, address);
        ancestors.retain(|ancestor| *ancestor != object);
        let ancestors = self.random.bool().then_some(&ancestors[..]);
        let naive = Described {
            object,
            scope,
            kind,
            ancestors,
            user,
        };
        let real = Description {
            object,
            scope,
            kind,
            ancestors,
            user,
        };
        let choice = self.random.u8(0..12);
        let agrees = match choice {
            0..4 => {
                let answer = tracker.track(&real).unwrap();
                self.model.track(tracker, &naive, answer.0) == Ok(answer)
            }
            4 => {
                let created = tracker.create(&real).unwrap();
                self.model.create(tracker, &naive, created) == Ok(created)
            }
            5 => {
                tracker.erase(object).unwrap();
                self.model.erase(tracker, object).is_ok()
            }
            6 => {
                tracker.destroy(object).unwrap();
                self.model.destroy_with(tracker, object, 0).is_ok()
            }
            7 => {
                tracker.destroy_with(object, 6).unwrap();
                self.model.destroy_with(tracker, object, 6).is_ok()
            }
            8 => {
                let to = ancestors.unwrap_or_default();
                tracker.move_to(object, to).unwrap();
                self.model.move_to(tracker, object, to).is_ok()
            }
            9 => {
                tracker.opaque_mutation(object).unwrap();
                self.model.opaque_mutation(tracker, object).is_ok()
            }
            10 => match tracker.find(object) {
                Ok((found, _)) => {
                    found.set_user(user).unwrap();
                    self.model.set_user(found, user).is_ok()
                }
                Err(_) => self.model.find(tracker, object).is_err(),
            },
            _ => match self.model.lives.last() {
                Some(life) => {
                    let reference = life.reference;
                    let answer = reference.release().map_err(|error| error.kind());
                    self.model.release(reference) == answer
                }
                None => true,
            },
        };
        wrong.check(agrees, || {
            format!("thread {thread}: call {choice} for {object:#x}")
        });
        self.check_own(wrong);
    }

    fn check_own(&mut self, wrong: &Wrong) {
        for number in 0..OWN {
            let object = own_address(self.number, number);
            let expected = self.model.find(self.tracker, object);
            let found = self.tracker.find(object).map_err(|error| error.kind());
            wrong.check(found == expected, || {
                format!("find of {object:#x}: {found:x?} instead of {expected:x?}")
            });
            let Ok((live, user)) = expected else {
                continue;
            };
            let registry = self.model.registry(self.tracker).unwrap();
            let parent = registry.tracked_parent(object);
            let parent = Ok(parent.map(|life| self.model.lives[life].reference));
            let answer = live.parent();
            wrong.check(answer == parent, || {
                format!("parent of {live:x?}: {answer:x?} instead of {parent:x?}")
            });
            wrong.check(live.user() == Ok(user), || format!("user of {live:x?}"));
        }
        for life in self.model.lives.iter().rev().take(100) {
            let is_live = life.reference.is_live();
            wrong.check(is_live == life.death.is_none(), || {
                format!("{life:x?}, which only one thread reports: live is {is_live}")
            });
            if let Some(record) = life.death
                && let Some(death) = life.reference.death()
            {
                let is_right = death.cause == record.cause && death.by == record.by;
                wrong.check(is_right, || format!("{life:x?} died of {death:x?}"));
            }
        }
        // The model looks from the beginning: it must not get long.
        if self.model.lives.len() > 2000 {
            let live = self.model.live_lives(self.tracker, None, None).unwrap();
            if live.is_empty() {
                self.forget();
            } else {
                for number in 0..OWN {
                    let object = own_address(self.number, number);
                    self.tracker.erase(object).unwrap();
                    self.model.erase(self.tracker, object).unwrap();
                }
            }
        }
    }

    fn forget(&mut self) {
        for life in self.model.lives.drain(..) {
            self.dead.push_back(life.reference);
        }
        self.dead.drain(..self.dead.len().saturating_sub(500));
        self.model.dead.clear();
    }

    fn remember(&mut self, found: Ref, user: usize, wrong: &Wrong) {
        let same = self.seen.iter().find(|(seen, _)| *seen == found);
        if let Some((_, first)) = same {
            wrong.check(*first == user, || {
                format!("{found:x?} has the user pointer {user:#x}, and had {first:#x}")
            });
            return;
        }
        self.seen.push_back((found, user));
        if self.seen.len() > 200 {
            let (old, _) = self.seen.pop_front().unwrap();
            if !old.is_live() {
                self.dead.push_back(old);
            }
        }
    }

    /// A call for an object that all threads report, and a look at what was seen of them.
    fn shared_step(&mut self, wrong: &Wrong) {
        let tracker = self.tracker;
        let object = shared_address(self.random.usize(0..SHARED));
        let scope = SHARED_SCOPES[self.random.usize(0..SHARED_SCOPES.len())];
        let user = self.new_user();
        let mut ancestors = list_of(&mut self.random, SHARED, 3, shared_address);
        ancestors.retain(|ancestor| *ancestor != object);
        let description = Description {
            object,
            scope,
            kind: self.random.u8(0..2),
            ancestors: self.random.bool().then_some(&ancestors[..]),
            user,
        };
        match self.random.u8(0..16) {
            0..5 => {
                let (found, user) = tracker.track(&description).unwrap();
                self.remember(found, user, wrong);
            }
            5 => {
                let created = tracker.create(&description).unwrap();
                self.remember(created, user, wrong);
            }
            6 => tracker.erase(object).unwrap(),
            7 => tracker.parent_destroy(object).unwrap(),
            8 => tracker.destroy(object).unwrap(),
            9 => tracker.destroy_with(object, 3).unwrap(),
            10 => tracker.move_to(object, &ancestors).unwrap(),
            11 => tracker.opaque_mutation(object).unwrap(),
            12 => {
                if let Some((latest, _)) = self.seen.back() {
                    let _ = latest.release();
                }
            }
            13 if self.random.u8(..) < 20 => tracker.clear_scope(scope).unwrap(),
            13 => {
                let mut found = Vec::new();
                let visit = |shown, user| {
                    found.push((shown, user));
                    Visit::Continue
                };
                tracker.for_each(Some(scope), None, visit).unwrap();
                for (shown, user) in found {
                    self.remember(shown, user, wrong);
                }
            }
            14 => {
                if let Some((latest, _)) = self.seen.back()
                    && let Ok(children) = latest.children()
                {
                    for (child, user) in children {
                        self.remember(child, user, wrong);
                    }
                }
            }
            _ => {
                if let Ok((found, user)) = tracker.find(object) {
                    wrong.check(found.object == object, || {
                        format!("{object:#x}: {found:x?}")
                    });
                    self.remember(found, user, wrong);
                }
                let _ = tracker.count(Some(scope), Some(1)).unwrap();
            }
        }
        self.check_shared(wrong);
    }

    fn check_shared(&mut self, wrong: &Wrong) {
        let picked = self.random.usize(..);
        let Some(&(one, user)) = self.seen.get(picked % self.seen.len().max(1)) else {
            return;
        };
        if let Ok(answer) = one.user() {
            wrong.check(answer == user, || {
                format!("{one:x?} has the user pointer {answer:#x}, and had {user:#x}")
            });
        }
        for (other, _) in self.seen.iter().rev().take(30) {
            // Live before and after the other is live: then they are live at once.
            let both = other.object == one.object
                && other != &one
                && one.is_live()
                && other.is_live()
                && one.is_live();
            wrong.check(!both, || {
                format!("{one:x?} and {other:x?} are live at once")
            });
        }
        if !one.is_live() {
            self.dead.push_back(one);
            if self.dead.len() > 500 {
                self.dead.pop_front();
            }
            if let Some(death) = one.death() {
                wrong.check(death.cause != Cause::Unknown, || {
                    format!("{one:x?}: {death:?}")
                });
            }
        }
        let picked = self.random.usize(..);
        if let Some(dead) = self.dead.get(picked % self.dead.len().max(1)) {
            wrong.check(!dead.is_live(), || {
                format!("{dead:x?} was dead and is live")
            });
        }
    }
}

/// While no thread is in a call: counts are exact, and what is live is where it should be.
fn check_at_rest(tracker: Tracker, workers: &[Worker], told: u64, wrong: &Wrong) {
    let mut listed = HashSet::new();
    let visit = |shown: Ref, _| {
        wrong.check(listed.insert(shown), || {
            format!("{shown:x?} was visited twice")
        });
        Visit::Continue
    };
    tracker.for_each(None, None, visit).unwrap();
    for shown in &listed {
        let found = tracker.find(shown.object).map(|(found, _)| found);
        wrong.check(found == Ok(*shown) && shown.is_live(), || {
            format!("{shown:x?} was visited; found is {found:x?}")
        });
    }
    let own = workers.iter().map(|worker| {
        let live = worker.model.live_lives(tracker, None, None).unwrap();
        for life in &live {
            let is_listed = listed.contains(&life.reference);
            wrong.check(is_listed, || format!("{life:x?} was not visited"));
        }
        live.len()
    });
    let own: usize = own.sum();
    let mut shared = 0;
    for number in 0..SHARED {
        shared += usize::from(tracker.find(shared_address(number)).is_ok());
    }
    for (seen, _) in workers.iter().flat_map(|worker| &worker.seen) {
        wrong.check(seen.is_live() == listed.contains(seen), || {
            format!(
                "{seen:x?}: live is {}, and that is not what was visited",
                seen.is_live()
            )
        });
    }
    let stats = tracker.stats().unwrap();
    let in_scopes = OWN_SCOPES.iter().chain(&SHARED_SCOPES);
    let in_scopes = in_scopes.map(|scope| tracker.count(Some(*scope), None).unwrap());
    let figures = [
        listed.len(),
        own + shared,
        stats.tracked,
        tracker.count(None, None).unwrap(),
        in_scopes.sum(),
    ];
    wrong.check(figures.iter().all(|figure| *figure == figures[0]), || {
        format!("visited, found, in the stats, counted, counted by scope: {figures:?}")
    });
    let ended = stats.ended + stats.released;
    wrong.check(told == ended, || {
        format!("{ended} ended, and {told} were told")
    });
    wrong.check(stats.internal_errors == 0, || format!("{stats:?}"));
}

#[test]
fn r18_threads_that_share_a_tracker_see_nothing_impossible() {
    let (mut random, wrong) = (random(), Wrong::default());
    let tracker = Tracker::new("shared").unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let counter = told.clone();
    let observer = move |ends: &[End]| {
        counter.fetch_add(ends.len() as u64, Ordering::Relaxed);
    };
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    let mut workers: Vec<Worker> = (0..THREADS)
        .map(|number| Worker::new(number, random.fork(), tracker))
        .collect();
    let progress = counters();
    let _watchdog = Watchdog::new(progress.clone());
    let (start, mut calls, mut rounds) = (Instant::now(), 0_u64, 0_u64);
    while start.elapsed() < share() && wrong.is_empty() {
        let only_shared = rounds % 3 == 0;
        thread::scope(|scope| {
            for worker in &mut workers {
                let (wrong, progress) = (&wrong, &progress);
                scope.spawn(move || {
                    for _ in 0..300 {
                        if !only_shared && worker.random.bool() {
                            worker.own_step(wrong);
                        } else {
                            worker.shared_step(wrong);
                        }
                        progress[worker.number].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        calls += 300 * THREADS as u64;
        rounds += 1;
        for number in &progress[..] {
            number.fetch_add(1, Ordering::Relaxed);
        }
        check_at_rest(tracker, &workers, told.load(Ordering::Relaxed), &wrong);
        // Whatever was shared can still be ended, and then no ref to it is live.
        if rounds % 4 == 0 {
            for scope in SHARED_SCOPES {
                tracker.clear_scope(scope).unwrap();
            }
            for (seen, _) in workers.iter().flat_map(|worker| &worker.seen) {
                wrong.check(!seen.is_live(), || {
                    format!("{seen:x?} is live in a cleared scope")
                });
            }
        }
    }
    println!("{calls} calls in {rounds} rounds");
    wrong.finish();
    tracker.destroy_tracker().unwrap();
    let live = workers.iter().flat_map(|worker| &worker.model.lives);
    assert!(live.into_iter().all(|life| !life.reference.is_live()));
}

fn describe(object: usize, ancestors: &[usize]) -> Description<'_> {
    Description {
        object,
        scope: 7,
        ancestors: Some(ancestors),
        ..Default::default()
    }
}

/// Waits for another thread, awake at first: the two are to meet within a microsecond.
fn wait(waited: &mut u32) {
    *waited += 1;
    match *waited {
        0..20_000 => std::hint::spin_loop(),
        _ => thread::yield_now(),
    }
}

#[test]
fn r06_a_released_and_destroyed_object_leaves_nothing_behind() {
    let (mut random, wrong) = (random(), Wrong::default());
    let tracker = Tracker::new("released").unwrap();
    let at = own_address;
    let progress = counters();
    let _watchdog = Watchdog::new(progress.clone());
    let (round, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let mut rounds = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut seen, mut waited) = (0, 0);
            while !is_over.load(Ordering::Acquire) {
                if round.load(Ordering::Acquire) == seen {
                    wait(&mut waited);
                    continue;
                }
                waited = 0;
                seen += 1;
                tracker.destroy(at(0, 1)).unwrap();
                done.store(seen, Ordering::Release);
            }
        });
        let start = Instant::now();
        while start.elapsed() < share() && wrong.is_empty() {
            rounds += 1;
            progress.iter().for_each(|number| {
                number.fetch_add(1, Ordering::Relaxed);
            });
            let (inside, _) = tracker.track(&describe(at(0, 0), &[at(0, 1)])).unwrap();
            let (outside, _) = tracker.track(&describe(at(0, 1), &[])).unwrap();
            round.store(rounds, Ordering::Release);
            for _ in 0..random.usize(0..200) {
                std::hint::spin_loop();
            }
            let _ = outside.release();
            let mut waited = 0;
            while done.load(Ordering::Acquire) != rounds {
                wait(&mut waited);
            }
            // All is quiet. A new object at the same address encloses the same one, and is erased.
            tracker.track(&describe(at(0, 0), &[at(0, 1)])).unwrap();
            tracker.erase(at(0, 1)).unwrap();
            wrong.check(!inside.is_live(), || {
                format!("round {rounds}: live after the erase of what encloses it")
            });
            tracker.clear_scope(7).unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    println!("{rounds} rounds");
    wrong.finish();
    tracker.destroy_tracker().unwrap();
}

// Trackers that come and go ----------------------------------------------------------------------------

/// Runs `hooks` on all threads, on whatever handle is published, while `manage` runs.
fn with_hooks(
    handle: &AtomicU64,
    progress: &Arc<[AtomicU64]>,
    hooks: impl Fn(usize, Tracker) + Sync,
    manage: impl FnOnce(),
) {
    let is_over = AtomicBool::new(false);
    let _watchdog = Watchdog::new(progress.clone());
    thread::scope(|scope| {
        for number in 0..THREADS - 1 {
            let (hooks, is_over) = (&hooks, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    hooks(number, Tracker::from_raw(handle.load(Ordering::Acquire)));
                    progress[number].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        manage();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn r15_no_observer_runs_after_it_was_taken_back() {
    let (mut random, wrong) = (random(), Arc::new(Wrong::default()));
    let (handle, progress) = (AtomicU64::new(0), counters());
    let told = Arc::new(AtomicU64::new(0));
    let hooks = |number: usize, tracker: Tracker| {
        // The user pointer says which tracker it was given to.
        let description = Description {
            object: own_address(number % 3, number),
            scope: number as u64 % 3,
            user: tracker.to_raw() as usize,
            ..Default::default()
        };
        if tracker.track(&description).is_ok() {
            let _ = tracker.destroy(description.object);
        }
    };
    let mut trackers = 0;
    with_hooks(&handle, &progress, hooks, || {
        let start = Instant::now();
        while start.elapsed() < share() && wrong.is_empty() {
            trackers += 1;
            let tracker = Tracker::new("brief").unwrap();
            let watch = |random: &mut Rng| {
                let is_taken_back = Arc::new(AtomicBool::new(false));
                let (taken_back, wrong, told) =
                    (is_taken_back.clone(), wrong.clone(), told.clone());
                let mine = tracker.to_raw() as usize;
                let is_slow = random.u8(0..4) == 0;
                let observer = move |ends: &[End]| {
                    let check = |when: &str| {
                        wrong.check(!taken_back.load(Ordering::SeqCst), || {
                            format!("an observer {when} after it was taken back")
                        });
                    };
                    check("begins");
                    told.fetch_add(ends.len() as u64, Ordering::Relaxed);
                    for end in ends {
                        wrong.check(end.user == mine, || {
                            format!("the observer of {mine:#x} was told of {:#x}", end.user)
                        });
                    }
                    if is_slow {
                        thread::sleep(Duration::from_micros(50));
                    }
                    check("goes on");
                };
                tracker.set_observer(Some(Arc::new(observer))).unwrap();
                is_taken_back
            };
            let first = watch(&mut random);
            handle.store(tracker.to_raw(), Ordering::Release);
            let pause = |random: &mut Rng| {
                thread::sleep(Duration::from_micros(random.u64(0..400)));
            };
            pause(&mut random);
            if random.bool() {
                let second = watch(&mut random);
                // A call of the first may still be under way; not once the tracker is destroyed.
                pause(&mut random);
                if random.bool() {
                    tracker.set_observer(None).unwrap();
                    second.store(true, Ordering::SeqCst);
                }
                tracker.destroy_tracker().unwrap();
                second.store(true, Ordering::SeqCst);
            } else {
                tracker.destroy_tracker().unwrap();
            }
            first.store(true, Ordering::SeqCst);
        }
    });
    let told = told.load(Ordering::Relaxed);
    println!("{trackers} trackers, {told} ends");
    wrong.finish();
    assert!(told > 0, "no observer was told of anything");
}

#[test]
fn r15_no_call_on_an_old_handle_touches_the_next_tracker() {
    let (mut random, wrong) = (random(), Wrong::default());
    let (handle, progress) = (AtomicU64::new(0), counters());
    let at = own_address;
    let hooks = |number: usize, tracker: Tracker| {
        let object = at(0, number % 2);
        let _ = match number % 4 {
            0 | 1 => tracker.destroy(object),
            2 => tracker.erase(object),
            _ => tracker.move_to(object, &[at(0, 5)]),
        };
    };
    let mut rounds = 0;
    with_hooks(&handle, &progress, hooks, || {
        let start = Instant::now();
        while start.elapsed() < share() && wrong.is_empty() {
            rounds += 1;
            let first = Tracker::new("first").unwrap();
            let ancestors = if random.bool() { &[at(0, 1)][..] } else { &[] };
            first.track(&describe(at(0, 0), ancestors)).unwrap();
            handle.store(first.to_raw(), Ordering::Release);
            thread::sleep(Duration::from_micros(random.u64(0..300)));
            first.destroy_tracker().unwrap();
            // Nobody else has the handle of this one.
            let next = Tracker::new("next").unwrap();
            let (live, _) = next
                .track(&describe(at(0, 0), &[at(0, 1), at(0, 2)]))
                .unwrap();
            let (parent, _) = next.track(&describe(at(0, 2), &[])).unwrap();
            thread::sleep(Duration::from_micros(random.u64(0..300)));
            let is_right = live.is_live() && parent.is_live();
            wrong.check(is_right, || format!("round {rounds}: {:x?}", live.death()));
            wrong.check(live.parent() == Ok(Some(parent)), || {
                format!("round {rounds}: parent {:x?}", live.parent())
            });
            next.destroy_tracker().unwrap();
        }
    });
    println!("{rounds} rounds");
    wrong.finish();
}

// Forks ------------------------------------------------------------------------------------------------

/// What the child of a fork does; another exit code than 0 says what was wrong.
fn use_in_child(tracker: Tracker, mine: Ref) -> i32 {
    struct Length(usize);
    impl std::fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    if !mine.is_live() || tracker.find(mine.object).map(|(found, _)| found) != Ok(mine) {
        return 2;
    }
    let description = Description {
        object: 0x6666_0000,
        scope: 99,
        ancestors: Some(&[0x6666_1000]),
        ..Default::default()
    };
    let Ok((tracked, _)) = tracker.track(&description) else {
        return 3;
    };
    if tracker.erase(0x6666_1000).is_err() || tracked.is_live() || tracked.death().is_none() {
        return 4;
    }
    // What other threads were in the middle of can be ended as well.
    for scope in 0..3 {
        if tracker.count(Some(scope), None).is_err() || tracker.clear_scope(scope).is_err() {
            return 5;
        }
    }
    if tracker.report(Format::Json, &mut Length(0)).is_err() || mine.release().is_err() {
        return 6;
    }
    let Ok(other) = Tracker::new("child") else {
        return 7;
    };
    if other.create(&description).is_err() || other.destroy_tracker().is_err() {
        return 8;
    }
    if tracker.set_observer(None).is_err() || tracker.destroy_tracker().is_err() {
        return 9;
    }
    0
}

#[test]
fn r19_each_child_of_a_fork_can_use_the_tracker() {
    let (mut random, wrong) = (random(), Wrong::default());
    let (handle, progress) = (AtomicU64::new(0), counters());
    let tracker = Tracker::new("forked").unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let counter = told.clone();
    let observer = move |ends: &[End]| {
        counter.fetch_add(ends.len() as u64, Ordering::Relaxed);
    };
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    handle.store(tracker.to_raw(), Ordering::Release);
    let hooks = |number: usize, tracker: Tracker| {
        let description = Description {
            object: own_address(number, 1),
            scope: number as u64 % 3,
            ..Default::default()
        };
        let (tracked, _) = tracker.track(&description).unwrap();
        match number {
            0 => drop(tracker.count(Some(1), None)),
            1 => drop(tracked.children()),
            2 => drop(tracked.release()),
            _ => {}
        }
        tracker.destroy(description.object).unwrap();
    };
    let (mine, _) = tracker
        .track(&Description {
            object: 0x5555_0000,
            scope: 5,
            ..Default::default()
        })
        .unwrap();
    let mut forks = 0;
    with_hooks(&handle, &progress, hooks, || {
        let start = Instant::now();
        while start.elapsed() < share() && wrong.is_empty() {
            forks += 1;
            // SAFETY: the child calls the tracker, which is what is looked at, and then leaves.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
            if child == 0 {
                // SAFETY: the alarm's signal ends a child that hangs; `_exit` ends one that does not.
                unsafe {
                    libc::alarm(10);
                    libc::_exit(use_in_child(tracker, mine));
                }
            }
            let mut status = 0;
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            let is_well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
            wrong.check(is_well, || match libc::WIFSIGNALED(status) {
                true => format!(
                    "fork {forks}: signal {} (14: hangs)",
                    libc::WTERMSIG(status)
                ),
                false => format!("fork {forks}: exit code {}", libc::WEXITSTATUS(status)),
            });
            thread::sleep(Duration::from_micros(random.u64(0..500)));
        }
    });
    let told = told.load(Ordering::Relaxed);
    println!("{forks} forks, {told} ends told");
    wrong.finish();
    assert!(mine.is_live());
    tracker.destroy_tracker().unwrap();
}

// The model on each thread -----------------------------------------------------------------------------

#[test]
fn r18_programs_on_eight_threads_agree_with_the_model() {
    let (mut random, wrong) = (random(), Wrong::default());
    let (start, steps) = (Instant::now(), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mut random = random.fork();
            let (wrong, steps) = (&wrong, &steps);
            scope.spawn(move || {
                let mut earlier = compare::Earlier::default();
                earlier.shift = number << 28;
                while start.elapsed() < share() && wrong.is_empty() {
                    let mut bytes = vec![0; 1 + random.usize(1..120) * steps::PIECE];
                    random.fill(&mut bytes);
                    bytes[0] %= 249; // The small pool.
                    let (pool, program) = steps::read(&bytes);
                    let ran = if number % 2 == 0 {
                        compare::run(api::Rust, pool, &program, &mut earlier)
                    } else {
                        compare::run(api::C, pool, &program, &mut earlier)
                    };
                    if let Err(difference) = ran {
                        let step = &program[..program.len().min(difference.step + 1)];
                        wrong.add(format!("{}\nafter {step:#?}", difference.what));
                    }
                    steps.fetch_add(program.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} steps", steps.load(Ordering::Relaxed));
    wrong.finish();
}
