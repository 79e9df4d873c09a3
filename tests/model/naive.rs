// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A tracker that is obviously right, and slow: lists, and searches from their beginning.
//!
//! The state of a tracker is the set of addresses that it knows. A known address has a scope, and a
//! parent, which is a known address of the same scope. A known address that is not tracked is a
//! *placeholder*; it goes at the end of the call when nothing tracked is below it.

use live_object_tracker::{Attribution, Cause, ErrorKind, Ref, Tracker};

type Result<T> = std::result::Result<T, ErrorKind>;

/// How an incarnation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub cause: Cause,
    pub by: Ref,
}

/// One incarnation that was handed out.
#[derive(Clone, Debug)]
pub struct Life {
    pub reference: Ref,
    pub tracker: Tracker,
    pub scope: u64,
    pub kind: u8,
    pub user: usize,
    pub death: Option<Record>,
}

/// What a tracker knows of an address.
#[derive(Clone, Debug)]
pub struct Known {
    pub object: usize,
    pub scope: u64,
    /// 0 for none.
    pub parent: usize,
    /// Which life goes on there; `None` for a placeholder.
    pub life: Option<usize>,
}

pub struct Registry {
    pub tracker: Tracker,
    pub known: Vec<Known>,
    pub exact_sources: u32,
    pub ended: u64,
    pub released: u64,
    pub missed_ends: u64,
}

/// Everything: all trackers, and every incarnation that there was.
pub struct Model {
    pub registries: Vec<Registry>,
    pub lives: Vec<Life>,
    /// The lives that ended, in order.
    pub dead: Vec<usize>,
    pub attribution: Attribution,
}

pub struct Described<'a> {
    pub object: usize,
    pub scope: u64,
    pub kind: u8,
    pub ancestors: Option<&'a [usize]>,
    pub user: usize,
}

fn check_ancestors(object: usize, ancestors: &[usize]) -> Result<()> {
    for (position, ancestor) in ancestors.iter().enumerate() {
        let is_repeated = ancestors[..position].contains(ancestor);
        if *ancestor == 0 || *ancestor == object || is_repeated {
            return Err(ErrorKind::InvalidArgument);
        }
    }
    Ok(())
}

fn check_object(object: usize) -> Result<()> {
    match object {
        0 => Err(ErrorKind::NullArgument),
        _ => Ok(()),
    }
}

fn check_kind(kind: u8) -> Result<()> {
    match kind {
        0..16 => Ok(()),
        _ => Err(ErrorKind::InvalidArgument),
    }
}

impl Registry {
    pub fn get(&self, object: usize) -> Option<&Known> {
        self.known.iter().find(|known| known.object == object)
    }

    fn get_mut(&mut self, object: usize) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.object == object)
    }

    fn parent(&self, object: usize) -> usize {
        self.get(object).map_or(0, |known| known.parent)
    }

    /// Whether `object` is strictly below `above`.
    fn is_below(&self, object: usize, above: usize) -> bool {
        let mut at = self.parent(object);
        for _ in 0..=self.known.len() {
            if at == 0 || at == above {
                return at == above;
            }
            at = self.parent(at);
        }
        unreachable!("parents lead in a circle");
    }

    /// The nearest tracked ancestor.
    pub fn tracked_parent(&self, object: usize) -> Option<usize> {
        let mut at = self.parent(object);
        while at != 0 {
            let known = self.get(at).expect("a parent is known");
            if known.life.is_some() {
                return known.life;
            }
            at = known.parent;
        }
        None
    }

    /// The nearest tracked descendants.
    pub fn tracked_children(&self, object: usize) -> Vec<usize> {
        let life = self.get(object).and_then(|known| known.life);
        assert!(life.is_some(), "asked for what is tracked only");
        let is_child = |known: &&Known| self.tracked_parent(known.object) == life;
        let children = self.known.iter().filter(is_child);
        children.filter_map(|known| known.life).collect()
    }

    pub fn placeholders(&self) -> usize {
        self.known
            .iter()
            .filter(|known| known.life.is_none())
            .count()
    }

    fn forget(&mut self, object: usize) {
        self.known.retain(|known| known.object != object);
    }

    /// Forgets the placeholders that nothing tracked is below of.
    fn prune(&mut self) {
        loop {
            let has_children =
                |object: usize| self.known.iter().any(|known| known.parent == object);
            let is_useless = |known: &&Known| known.life.is_none() && !has_children(known.object);
            let Some(useless) = self.known.iter().find(is_useless) else {
                return;
            };
            let object = useless.object;
            self.forget(object);
        }
    }

    /// Puts an object where a report says that it is. The report wins for all that it names.
    fn place(&mut self, object: usize, ancestors: &[usize]) {
        let scope = self.get(object).expect("what is placed is known").scope;
        for ancestor in ancestors {
            if self.get(*ancestor).is_none() {
                self.known.push(Known {
                    object: *ancestor,
                    scope,
                    parent: 0,
                    life: None,
                });
            }
        }
        let mut at = object;
        for ancestor in ancestors.iter().chain(&[0]) {
            if let Some(known) = self.get_mut(at) {
                known.parent = *ancestor;
            }
            at = *ancestor;
        }
    }
}

impl Model {
    pub fn new() -> Self {
        Self {
            registries: Vec::new(),
            lives: Vec::new(),
            dead: Vec::new(),
            attribution: Attribution::NONE,
        }
    }

    // Trackers and options --------------------------------------------------------------------------

    pub fn add_tracker(&mut self, tracker: Tracker) {
        self.registries.push(Registry {
            tracker,
            known: Vec::new(),
            exact_sources: 0,
            ended: 0,
            released: 0,
            missed_ends: 0,
        });
    }

    fn number(&self, tracker: Tracker) -> Result<usize> {
        let same = |registry: &Registry| registry.tracker == tracker;
        self.registries
            .iter()
            .position(same)
            .ok_or(ErrorKind::NoTracker)
    }

    pub fn registry(&self, tracker: Tracker) -> Result<&Registry> {
        Ok(&self.registries[self.number(tracker)?])
    }

    pub fn destroy_tracker(&mut self, tracker: Tracker) -> Result<()> {
        let number = self.number(tracker)?;
        let objects: Vec<usize> = self.registries[number]
            .known
            .iter()
            .map(|known| known.object)
            .collect();
        for object in objects {
            self.end(number, object, Cause::ScopeCleared, Ref::NULL);
        }
        self.registries.remove(number);
        Ok(())
    }

    pub fn exact_begin(&mut self, tracker: Tracker) -> Result<()> {
        let number = self.number(tracker)?;
        self.registries[number].exact_sources += 1;
        Ok(())
    }

    pub fn exact_end(&mut self, tracker: Tracker) -> Result<()> {
        let number = self.number(tracker)?;
        let sources = &mut self.registries[number].exact_sources;
        *sources = sources.checked_sub(1).ok_or(ErrorKind::NotActive)?;
        Ok(())
    }

    // Ends ------------------------------------------------------------------------------------------

    /// An address as a ref, with epoch 0 if it is not tracked.
    fn ref_of(&self, number: usize, object: usize) -> Ref {
        let known = self.registries[number].get(object);
        match known.and_then(|known| known.life) {
            Some(life) => self.lives[life].reference,
            None => Ref { object, epoch: 0 },
        }
    }

    /// Ends the incarnation at an address, if there is one. The address stays known.
    fn end(&mut self, number: usize, object: usize, cause: Cause, by: Ref) {
        let registry = &mut self.registries[number];
        let Some(life) = registry.get_mut(object).and_then(|known| known.life.take()) else {
            return;
        };
        match cause {
            Cause::Released => registry.released += 1,
            _ => registry.ended += 1,
        }
        if cause == Cause::MissedEnd {
            registry.missed_ends += 1;
        }
        let ended = &mut self.lives[life];
        let by = if by == ended.reference { Ref::NULL } else { by };
        assert!(ended.death.is_none());
        ended.death = Some(Record { cause, by });
        self.dead.push(life);
    }

    /// Ends all that is tracked strictly below an address.
    fn end_below(&mut self, number: usize, object: usize, cause: Cause) {
        let by = self.ref_of(number, object);
        for below in self.below(number, object) {
            self.end(number, below, cause, by);
        }
    }

    fn below(&self, number: usize, object: usize) -> Vec<usize> {
        let registry = &self.registries[number];
        let objects = registry.known.iter().map(|known| known.object);
        objects
            .filter(|below| registry.is_below(*below, object))
            .collect()
    }

    /// Ends an object with all below it, and forgets all of it.
    fn end_subtree(&mut self, number: usize, object: usize, cause_below: Cause, cause: Cause) {
        self.end_below(number, object, cause_below);
        self.end(number, object, cause, Ref::NULL);
        for below in self.below(number, object) {
            self.registries[number].forget(below);
        }
        self.registries[number].forget(object);
    }

    fn miss_end(&mut self, number: usize, object: usize) {
        self.end_subtree(number, object, Cause::MissedEnd, Cause::MissedEnd);
    }

    /// Ends an object alone; what is below it moves up to its parent.
    fn end_alone(&mut self, number: usize, object: usize, cause: Cause, by: Ref) {
        self.end(number, object, cause, by);
        let registry = &mut self.registries[number];
        let parent = registry.parent(object);
        for known in &mut registry.known {
            if known.parent == object {
                known.parent = parent;
            }
        }
        registry.forget(object);
    }

    // Registration ----------------------------------------------------------------------------------

    /// Ends what a report names as an ancestor and that is known in another scope.
    fn miss_ends_elsewhere(&mut self, number: usize, scope: u64, ancestors: &[usize]) {
        for ancestor in ancestors {
            let known = self.registries[number].get(*ancestor);
            if known.is_some_and(|known| known.scope != scope) {
                self.miss_end(number, *ancestor);
            }
        }
    }

    fn check(&self, tracker: Tracker, about: &Described) -> Result<usize> {
        check_object(about.object)?;
        check_kind(about.kind)?;
        let number = self.number(tracker)?;
        check_ancestors(about.object, about.ancestors.unwrap_or_default())?;
        Ok(number)
    }

    /// `given` is the ref that the real tracker handed out: the model cannot know the epoch.
    pub fn create(&mut self, tracker: Tracker, about: &Described, given: Ref) -> Result<Ref> {
        let number = self.check(tracker, about)?;
        if self.registries[number].get(about.object).is_some() {
            self.miss_end(number, about.object);
        }
        let ancestors = about.ancestors.unwrap_or_default();
        self.miss_ends_elsewhere(number, about.scope, ancestors);
        self.add(number, about);
        self.registries[number].place(about.object, ancestors);
        let started = self.start(number, about, given);
        self.registries[number].prune();
        Ok(started)
    }

    pub fn track(
        &mut self,
        tracker: Tracker,
        about: &Described,
        given: Ref,
    ) -> Result<(Ref, usize)> {
        let number = self.check(tracker, about)?;
        if let Some(known) = self.registries[number].get(about.object) {
            let is_other_kind = known
                .life
                .is_some_and(|life| self.lives[life].kind != about.kind);
            if known.scope != about.scope || is_other_kind {
                return Ok((self.create(tracker, about, given)?, about.user));
            }
        }
        self.miss_ends_elsewhere(number, about.scope, about.ancestors.unwrap_or_default());
        if self.registries[number].get(about.object).is_none() {
            self.add(number, about);
        }
        if let Some(ancestors) = about.ancestors {
            self.registries[number].place(about.object, ancestors);
        }
        let known = self.registries[number].get(about.object);
        let answer = match known.and_then(|known| known.life) {
            Some(life) => (self.lives[life].reference, self.lives[life].user),
            None => (self.start(number, about, given), about.user),
        };
        self.registries[number].prune();
        Ok(answer)
    }

    fn add(&mut self, number: usize, about: &Described) {
        self.registries[number].known.push(Known {
            object: about.object,
            scope: about.scope,
            parent: 0,
            life: None,
        });
    }

    fn start(&mut self, number: usize, about: &Described, given: Ref) -> Ref {
        let life = self.lives.len();
        let registry = &mut self.registries[number];
        self.lives.push(Life {
            reference: given,
            tracker: registry.tracker,
            scope: about.scope,
            kind: about.kind,
            user: about.user,
            death: None,
        });
        let known = registry
            .get_mut(about.object)
            .expect("what starts is known");
        known.life = Some(life);
        given
    }

    // Hooks -----------------------------------------------------------------------------------------

    /// What a hook has to do: the registry that knows the object, or nothing.
    fn hook(&self, tracker: Tracker, object: usize) -> Result<Option<usize>> {
        check_object(object)?;
        let number = self.number(tracker)?;
        Ok(self.registries[number].get(object).map(|_| number))
    }

    pub fn erase(&mut self, tracker: Tracker, object: usize) -> Result<()> {
        self.end_with_all_below(tracker, object, Cause::Erased)
    }

    pub fn parent_destroy(&mut self, tracker: Tracker, object: usize) -> Result<()> {
        self.end_with_all_below(tracker, object, Cause::Destroyed)
    }

    fn end_with_all_below(&mut self, tracker: Tracker, object: usize, cause: Cause) -> Result<()> {
        let Some(number) = self.hook(tracker, object)? else {
            return Ok(());
        };
        if self.registries[number].exact_sources > 0 {
            self.end_alone(number, object, cause, Ref::NULL);
        } else {
            self.end_subtree(number, object, Cause::AncestorDestroyed, cause);
        }
        self.registries[number].prune();
        Ok(())
    }

    pub fn destroy_with(&mut self, tracker: Tracker, object: usize, kinds: u32) -> Result<()> {
        let Some(number) = self.hook(tracker, object)? else {
            return Ok(());
        };
        let own = self.ref_of(number, object);
        let mut parts = Vec::new();
        for known in &self.registries[number].known {
            if known.parent == object
                && let Some(life) = known.life
                && kinds >> self.lives[life].kind & 1 == 1
            {
                parts.push(known.object);
            }
        }
        for part in parts {
            for below in self.below(number, part) {
                self.end(number, below, Cause::AncestorDestroyed, own);
            }
            self.end(number, part, Cause::AncestorDestroyed, own);
        }
        let Attribution { by, cause } = self.attribution;
        let is_by_itself = by.object == object && (by.epoch == 0 || by.epoch == own.epoch);
        let (cause, by) = match cause {
            Cause::Unknown => (Cause::Destroyed, Ref::NULL),
            _ if is_by_itself => (Cause::Erased, Ref::NULL),
            _ => (cause, by),
        };
        self.end_alone(number, object, cause, by);
        self.registries[number].prune();
        Ok(())
    }

    pub fn move_to(&mut self, tracker: Tracker, object: usize, ancestors: &[usize]) -> Result<()> {
        let found = self.hook(tracker, object)?;
        check_ancestors(object, ancestors)?;
        let Some(number) = found else {
            return Ok(());
        };
        let scope = self.registries[number]
            .get(object)
            .expect("it is known")
            .scope;
        self.miss_ends_elsewhere(number, scope, ancestors);
        self.registries[number].place(object, ancestors);
        self.registries[number].prune();
        Ok(())
    }

    pub fn opaque_mutation(&mut self, tracker: Tracker, object: usize) -> Result<()> {
        let Some(number) = self.hook(tracker, object)? else {
            return Ok(());
        };
        if self.registries[number].exact_sources == 0 {
            self.end_below(number, object, Cause::OpaqueMutation);
            self.registries[number].prune();
        }
        Ok(())
    }

    pub fn clear_scope(&mut self, tracker: Tracker, scope: u64) -> Result<()> {
        let number = self.number(tracker)?;
        let in_scope = |known: &&Known| known.scope == scope;
        let cleared = self.registries[number].known.iter().filter(in_scope);
        for object in cleared.map(|known| known.object).collect::<Vec<_>>() {
            self.end(number, object, Cause::ScopeCleared, Ref::NULL);
            self.registries[number].forget(object);
        }
        Ok(())
    }

    pub fn release(&mut self, reference: Ref) -> Result<()> {
        let life = self.live(reference)?;
        let number = self.number(self.lives[life].tracker)?;
        self.end(number, reference.object, Cause::Released, Ref::NULL);
        self.registries[number].prune();
        Ok(())
    }

    pub fn set_user(&mut self, reference: Ref, user: usize) -> Result<()> {
        let life = self.live(reference)?;
        self.lives[life].user = user;
        Ok(())
    }

    // Questions -------------------------------------------------------------------------------------

    /// The life that a live ref names.
    pub fn live(&self, reference: Ref) -> Result<usize> {
        let is_it = |life: &Life| life.reference == reference && life.death.is_none();
        self.lives.iter().position(is_it).ok_or(ErrorKind::DeadRef)
    }

    pub fn find(&self, tracker: Tracker, object: usize) -> Result<(Ref, usize)> {
        check_object(object)?;
        let registry = self.registry(tracker)?;
        let life = registry.get(object).and_then(|known| known.life);
        let life = &self.lives[life.ok_or(ErrorKind::NotFound)?];
        Ok((life.reference, life.user))
    }

    /// The live incarnations of a scope or of all, of a kind or of all.
    pub fn live_lives(
        &self,
        tracker: Tracker,
        scope: Option<u64>,
        kind: Option<u8>,
    ) -> Result<Vec<&Life>> {
        kind.map_or(Ok(()), check_kind)?;
        let known = self.registry(tracker)?.known.iter();
        let lives = known.filter_map(|known| known.life.map(|life| &self.lives[life]));
        let is_asked_for = |life: &&Life| {
            scope.is_none_or(|scope| scope == life.scope)
                && kind.is_none_or(|kind| kind == life.kind)
        };
        Ok(lives.filter(is_asked_for).collect())
    }
}
