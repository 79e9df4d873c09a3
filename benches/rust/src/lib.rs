// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What the Rust benchmarks compare: the tracker's checks and hooks, and the same job done by others.
//!
//! A contender does [`ROUND`] jobs a call, over addresses in a shuffled order. The addresses are made up, since
//! the tracker never follows one, so that each run asks for the same ones.

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use dashmap::DashMap;
use live_object_tracker::ffi::lot::{lot_destroy, lot_is_live, lot_ref, lot_tracker};
use live_object_tracker::{Description, Ref, Tracker};
use rustc_hash::FxBuildHasher;
use slotmap::SlotMap;

/// Objects that are tracked, and jobs in one call.
pub const ROUND: usize = 100_000;

/// The distance of made-up objects: that of small operations.
const STEP: usize = 112;
const FIRST: usize = 0x5555_5600_0000;

/// Does [`ROUND`] jobs and gives how many had the expected result.
pub type Job = Box<dyn FnMut() -> usize>;

pub struct Contender {
    pub group: &'static str,
    pub name: &'static str,
    pub make: fn() -> Job,
}

pub const CONTENDERS: &[Contender] = &[
    contender("is_live", "lot through the C ABI", is_live_c),
    contender("is_live", "lot inlined", is_live_rust),
    contender("is_live", "load and compare", is_live_floor),
    contender("is_live", "load and compare in a call", is_live_floor_call),
    contender("is_live", "two comparisons", is_live_two),
    contender("is_live", "two, in a table that may grow", is_live_growing),
    contender("is_live", "slotmap contains_key", is_live_slotmap),
    contender("is_live", "dashmap (Fx) lookup", is_live_dashmap_fx),
    contender("is_live", "dashmap (SipHash) lookup", is_live_dashmap_sip),
    contender("is_live", "papaya (Fx) lookup", is_live_papaya),
    contender("is_live", "bool in the wrapper", is_live_bool),
    contender("destroy_miss", "lot through the C ABI", destroy_miss_c),
    contender("destroy_miss", "lot inlined", destroy_miss_rust),
    contender("destroy_miss", "dashmap (Fx) miss", destroy_miss_dashmap_fx),
    contender(
        "destroy_miss",
        "dashmap (SipHash) miss",
        destroy_miss_dashmap_sip,
    ),
    contender("destroy_miss", "papaya (Fx) miss", destroy_miss_papaya),
    contender("destroy_empty", "lot through the C ABI", destroy_empty_c),
    contender("destroy_empty", "lot inlined", destroy_empty_rust),
    contender(
        "destroy_empty",
        "load and branch in a call",
        destroy_empty_floor,
    ),
    contender("track_release", "lot inlined", track_release_rust),
    contender(
        "track_release",
        "dashmap (Fx) insert and remove",
        track_release_dashmap_fx,
    ),
];

const fn contender(group: &'static str, name: &'static str, make: fn() -> Job) -> Contender {
    Contender { group, name, make }
}

/// An object that some contender tracks.
fn tracked(number: usize) -> usize {
    FIRST + number * STEP
}

/// An object among those that nobody tracks.
fn untracked(number: usize) -> usize {
    tracked(number) + STEP / 2 + 8
}

/// The same shuffle in every run.
fn shuffled<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(last, (state % (last as u64 + 1)) as usize);
    }
    items
}

/// A tracker that ends with the contender.
struct OwnTracker(Tracker);

impl OwnTracker {
    fn new() -> Self {
        Self(Tracker::new("benchmark").expect("there is room for a tracker"))
    }

    fn track(&self, object: usize) -> Ref {
        let description = Description {
            object,
            scope: 1,
            ..Description::default()
        };
        self.0.track(&description).expect("it can be tracked").0
    }

    fn with_all() -> (Self, Vec<Ref>) {
        let tracker = Self::new();
        let refs = (0..ROUND)
            .map(|number| tracker.track(tracked(number)))
            .collect();
        (tracker, refs)
    }
}

impl Drop for OwnTracker {
    fn drop(&mut self) {
        self.0.destroy_tracker().expect("it exists");
    }
}

// Checks ------------------------------------------------------------------------------------------------

/// A call through a pointer that the optimiser knows nothing of: as from another language.
fn is_live_c() -> Job {
    let (tracker, refs) = OwnTracker::with_all();
    let refs = shuffled(refs.into_iter().map(|known| lot_ref {
        object: known.object as *const c_void,
        epoch: known.epoch,
    }));
    Box::new(move || {
        let _keep = &tracker;
        let is_live = black_box(lot_is_live as extern "C" fn(lot_ref) -> bool);
        refs.iter().filter(|known| is_live(**known)).count()
    })
}

fn is_live_rust() -> Job {
    let (tracker, refs) = OwnTracker::with_all();
    let refs = shuffled(refs.into_iter());
    Box::new(move || {
        let _keep = &tracker;
        refs.iter().filter(|known| known.is_live()).count()
    })
}

/// As many as there are keys: their number is known, as a call need not be told it.
type Entries = [[AtomicU64; 2]; ROUND];

/// What no check of an index with a number in it can go below: one relaxed load, one comparison, in a table
/// as large as the tracker's (16 bytes an entry), with keys as large as a ref.
fn load_and_compare(table: &Entries, number: u64, key: u64) -> bool {
    let entry = table.get(number as usize);
    entry.is_some_and(|entry| entry[1].load(Ordering::Relaxed) == key)
}

/// Entries and keys for that.
fn one_word() -> (Box<Entries>, Vec<[u64; 2]>) {
    let words = |number: usize| [number as u64, (number as u64) << 32 | 1];
    let table = (0..ROUND).map(|number| words(number).map(AtomicU64::new));
    let table: Box<[_]> = table.collect();
    let table = table.try_into().expect("it has that size");
    (table, shuffled((0..ROUND).map(words)))
}

fn is_live_floor() -> Job {
    let (table, keys) = one_word();
    Box::new(move || {
        let is_live = |key: &&[u64; 2]| load_and_compare(&table, key[0], key[1]);
        keys.iter().filter(is_live).count()
    })
}

/// The same behind a call that the optimiser cannot look into.
fn is_live_floor_call() -> Job {
    let (table, keys) = one_word();
    Box::new(move || {
        let check = black_box(load_and_compare as fn(&Entries, u64, u64) -> bool);
        let is_live = |key: &&[u64; 2]| check(&table, key[0], key[1]);
        keys.iter().filter(is_live).count()
    })
}

/// Entries and keys of which both words count, as in a ref: what the number of the entry is in the second one.
fn two_words() -> (Vec<[AtomicU64; 2]>, Vec<[u64; 2]>) {
    let words = |number: usize| [tracked(number) as u64, 1 << 32 | number as u64];
    let entries = ROUND.next_power_of_two();
    let table = (0..entries).map(|number| words(number).map(AtomicU64::new));
    (table.collect(), shuffled((0..ROUND).map(words)))
}

/// The least that a check of a ref can do: its address is compared as well.
fn is_live_two() -> Job {
    let (table, keys) = two_words();
    Box::new(move || {
        let is_live = |key: &&[u64; 2]| {
            let entry = table.get(key[1] as u32 as usize);
            entry.is_some_and(|entry| {
                entry[0].load(Ordering::Acquire) == key[0]
                    && entry[1].load(Ordering::Acquire) == key[1]
            })
        };
        keys.iter().filter(is_live).count()
    })
}

/// The same when another thread may make the table larger at any time.
fn is_live_growing() -> Job {
    static TABLE: AtomicPtr<[AtomicU64; 2]> = AtomicPtr::new(std::ptr::null_mut());
    static MASK: AtomicU32 = AtomicU32::new(0);
    let (mut table, keys) = two_words();
    TABLE.store(table.as_mut_ptr(), Ordering::Release);
    MASK.store(table.len() as u32 - 1, Ordering::Release);
    Box::new(move || {
        let _keep = &table;
        let is_live = |key: &&[u64; 2]| {
            let number = key[1] as u32 & MASK.load(Ordering::Acquire);
            // SAFETY: the table has a power of two entries, and `MASK` is one less; it lives as long as the job.
            let entry = unsafe { &*TABLE.load(Ordering::Acquire).add(number as usize) };
            let other = entry[0].load(Ordering::Acquire) ^ key[0];
            other | (entry[1].load(Ordering::Acquire) ^ key[1]) == 0
        };
        keys.iter().filter(is_live).count()
    })
}

fn is_live_slotmap() -> Job {
    let mut map = SlotMap::new();
    let keys: Vec<_> = (0..ROUND)
        .map(|number| map.insert(tracked(number)))
        .collect();
    let keys = shuffled(keys.into_iter());
    Box::new(move || keys.iter().filter(|key| map.contains_key(**key)).count())
}

fn dashmap_check<H: Default + Clone + std::hash::BuildHasher + 'static>() -> Job {
    let mut map: DashMap<usize, u64, H> = DashMap::default();
    let keys = shuffled((0..ROUND).map(|number| (tracked(number), number as u64)));
    map.extend(keys.iter().copied());
    Box::new(move || {
        let is_live = |key: &&(usize, u64)| map.get(&key.0).is_some_and(|epoch| *epoch == key.1);
        keys.iter().filter(is_live).count()
    })
}

fn is_live_dashmap_fx() -> Job {
    dashmap_check::<FxBuildHasher>()
}

fn is_live_dashmap_sip() -> Job {
    dashmap_check::<std::hash::RandomState>()
}

fn is_live_papaya() -> Job {
    let map: papaya::HashMap<usize, u64, FxBuildHasher> = papaya::HashMap::default();
    let keys = shuffled((0..ROUND).map(|number| (tracked(number), number as u64)));
    for (object, epoch) in &keys {
        map.pin().insert(*object, *epoch);
    }
    Box::new(move || {
        let is_live = |key: &&(usize, u64)| map.pin().get(&key.0) == Some(&key.1);
        keys.iter().filter(is_live).count()
    })
}

/// The flag that a wrapper object carries and its owner clears: one load, but only for whoever can reach all
/// wrappers of an object when it dies.
fn is_live_bool() -> Job {
    struct Wrapper {
        _object: usize,
        valid: AtomicBool,
    }
    let wrappers: Vec<Box<Wrapper>> = (0..ROUND)
        .map(|number| {
            Box::new(Wrapper {
                _object: tracked(number),
                valid: AtomicBool::new(true),
            })
        })
        .collect();
    let wrappers = shuffled(wrappers.into_iter());
    Box::new(move || {
        let is_live = |wrapper: &Wrapper| wrapper.valid.load(Ordering::Relaxed);
        wrappers.iter().filter(|wrapper| is_live(wrapper)).count()
    })
}

// The hook, for an address that nobody tracks ---------------------------------------------------------------

fn destroy_c(tracker: OwnTracker) -> Job {
    let objects = shuffled((0..ROUND).map(untracked));
    let handle = tracker.0.to_raw();
    Box::new(move || {
        let _keep = &tracker;
        let destroy = black_box(lot_destroy as extern "C" fn(lot_tracker, *const c_void) -> i32);
        let is_ok =
            |object: &&usize| destroy(lot_tracker { id: handle }, **object as *const c_void) == 0;
        objects.iter().filter(is_ok).count()
    })
}

fn destroy_rust(tracker: OwnTracker) -> Job {
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        let OwnTracker(tracker) = &tracker;
        objects
            .iter()
            .filter(|object| tracker.destroy(**object).is_ok())
            .count()
    })
}

fn destroy_miss_c() -> Job {
    destroy_c(OwnTracker::with_all().0)
}

fn destroy_miss_rust() -> Job {
    destroy_rust(OwnTracker::with_all().0)
}

fn destroy_empty_c() -> Job {
    destroy_c(OwnTracker::new())
}

fn destroy_empty_rust() -> Job {
    destroy_rust(OwnTracker::new())
}

/// The least that a hook behind a call can do.
fn destroy_empty_floor() -> Job {
    static BUSY: AtomicU64 = AtomicU64::new(0);
    extern "C" fn floor(_tracker: lot_tracker, object: *const c_void) -> i32 {
        if BUSY.load(Ordering::Acquire) == 0 {
            return 0;
        }
        black_box(object as usize as i32)
    }
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        let destroy = black_box(floor as extern "C" fn(lot_tracker, *const c_void) -> i32);
        let is_ok =
            |object: &&usize| destroy(lot_tracker { id: 1 }, **object as *const c_void) == 0;
        objects.iter().filter(is_ok).count()
    })
}

fn dashmap_miss<H: Default + Clone + std::hash::BuildHasher + 'static>() -> Job {
    let mut map: DashMap<usize, u64, H> = DashMap::default();
    map.extend((0..ROUND).map(|number| (tracked(number), number as u64)));
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        objects
            .iter()
            .filter(|object| map.get(*object).is_none())
            .count()
    })
}

fn destroy_miss_dashmap_fx() -> Job {
    dashmap_miss::<FxBuildHasher>()
}

fn destroy_miss_dashmap_sip() -> Job {
    dashmap_miss::<std::hash::RandomState>()
}

fn destroy_miss_papaya() -> Job {
    let map: papaya::HashMap<usize, u64, FxBuildHasher> = papaya::HashMap::default();
    for number in 0..ROUND {
        map.pin().insert(tracked(number), number as u64);
    }
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        objects
            .iter()
            .filter(|object| map.pin().get(*object).is_none())
            .count()
    })
}

// Beside 100,000 others, an object comes and goes -------------------------------------------------------------

fn track_release_rust() -> Job {
    let (tracker, _) = OwnTracker::with_all();
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        let comes_and_goes = |object: &&usize| tracker.track(**object).release().is_ok();
        objects.iter().filter(comes_and_goes).count()
    })
}

/// What the index alone must cost, by its usual interface.
fn track_release_dashmap_fx() -> Job {
    let map: DashMap<usize, u64, FxBuildHasher> = DashMap::default();
    for number in 0..ROUND {
        map.insert(tracked(number), number as u64);
    }
    let objects = shuffled((0..ROUND).map(untracked));
    Box::new(move || {
        let comes_and_goes = |object: &&usize| {
            map.insert(**object, 1);
            map.remove(*object).is_some()
        };
        objects.iter().filter(comes_and_goes).count()
    })
}
