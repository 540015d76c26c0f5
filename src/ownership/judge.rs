//! One path against one policy: may this requester write it?
//!
//! Input: a policy, the facts, and which of the policy's claims are active.
//! Output: a [`Judgement`]. Nothing here looks at values or at `managedFields`;
//! which paths changed is the work of `diff`, what follows from a judgement that
//! of `decide`.

use std::cell::RefCell;
use std::cmp::Ordering;

use super::element::Element;
use super::facts::Facts;
use super::pattern::Step;
use super::raw::Node;
use super::rule::{Claim, ManagerUse, Mode, Owner, Policy, Subject};

/// Whether a claim holds for the object under review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It has no `when`, or its `when` holds.
    Active,
    /// Its `when` does not hold.
    Inactive,
    /// Its `when` could not be evaluated; the text says why.
    Unknown(String),
}

/// The activity of a policy's claims for one state of the object, found out when first asked.
///
/// Most reviews touch one or two paths, so most conditions are never evaluated.
pub(super) struct Activities<'p, 'f> {
    policy: &'p Policy,
    state: Option<Node<'f, 'f>>,
    known: RefCell<Vec<Option<Activity>>>,
}

impl<'p, 'f> Activities<'p, 'f> {
    /// `state` is what `oldObject` stands for in conditions.
    pub(super) fn new(policy: &'p Policy, state: Option<Node<'f, 'f>>) -> Self {
        Self { policy, state, known: RefCell::new(Vec::new()) }
    }

    fn of(&self, index: usize, claim: &Claim) -> Activity {
        let Some(condition) = &claim.when else { return Activity::Active };
        let mut known = self.known.borrow_mut();
        if known.is_empty() {
            known.resize(self.policy.claims.len(), None);
        }
        let evaluate = || match condition.eval_node(self.state) {
            Ok(true) => Activity::Active,
            Ok(false) => Activity::Inactive,
            Err(error) => Activity::Unknown(error.to_string()),
        };
        match known.get_mut(index) {
            Some(slot) => slot.get_or_insert_with(evaluate).clone(),
            None => evaluate(),
        }
    }
}

/// Why a requester may not write a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Others own it.
    Owned,
    /// Nobody may write it.
    Closed,
    /// The requester owns it, but not under this field manager.
    Manager,
}

/// What one policy says of one path.
#[derive(Clone, Debug)]
pub(super) enum Judgement<'p> {
    /// The requester owns it. The claim's length in elements tells a claim below
    /// an atomic node from one above it.
    Owned { depth: usize },
    /// No active claim covers it.
    Uncovered,
    /// The requester may not write it.
    Refused { mode: Mode, why: Refusal, claims: Vec<&'p Claim>, depth: usize },
    /// A condition could not be evaluated.
    Undecided { mode: Mode, text: String, depth: usize },
}

/// The part of a judgement that stays the same for all paths of a request.
pub(super) struct Judge<'p, 'f> {
    pub(super) policy: &'p Policy,
    facts: &'f Facts<'f>,
}

/// Which claims are asked about a path.
#[derive(Clone, Copy)]
enum Reach {
    /// Those that cover it, at it or above it.
    Covering,
    /// Those that end exactly at it.
    EndingAt,
    /// Those that lie below it.
    Below,
}

impl<'p, 'f> Judge<'p, 'f> {
    pub(super) fn new(policy: &'p Policy, facts: &'f Facts<'f>) -> Self {
        Self { policy, facts }
    }

    /// Judges a changed leaf: the most specific active claim that covers it decides, and a
    /// milder claim does not shadow a stricter broader one.
    pub(super) fn path(&self, path: &[Element], active: &Activities<'p, '_>) -> Judgement<'p> {
        self.search(path, active, Reach::Covering)
    }

    /// Whether the requester owns the item at `path` as a whole, and so may add and remove it.
    pub(super) fn owns_item(&self, path: &[Element], active: &Activities<'p, '_>) -> bool {
        matches!(self.search(path, active, Reach::EndingAt), Judgement::Owned { .. })
    }

    /// A refusal by a claim somewhere below a path, for changes that do not tell what they
    /// touch there. No item of a list has a name: claims on members below one are not touched.
    pub(super) fn below(
        &self,
        path: &[Element],
        active: &Activities<'p, '_>,
        is_list: bool,
    ) -> Option<Judgement<'p>> {
        let names = |claim: &Claim| matches!(claim.pattern.steps().get(path.len()), Some(Step::Field(_)));
        let touched = |claim: &Claim| claim.pattern.reaches_below(path) && !(is_list && names(claim));
        // Each claim counts by itself here: owning one part gives no right to another.
        let below = self.policy.claims.iter().enumerate().filter(|(_, claim)| touched(claim));
        let mut refusals = below.filter_map(|(index, claim)| {
            let mut group = Group::default();
            self.add(&mut group, index, claim, path, active, Reach::Below);
            let mode = group.mode?;
            let depth = path.len();
            let refused = |why| Judgement::Refused { mode, why, claims: vec![claim], depth };
            match group {
                Group { unknown: Some(text), .. } => Some(Judgement::Undecided { mode, text, depth }),
                Group { closed: Some(_), .. } => Some(refused(Refusal::Closed)),
                Group { mine: false, .. } => Some(refused(Refusal::Owned)),
                _ => None,
            }
        });
        refusals.next()
    }

    fn search(&self, path: &[Element], active: &Activities<'p, '_>, reach: Reach) -> Judgement<'p> {
        let mut found: Option<Judgement<'p>> = None;
        let mut rest = self.policy.claims.iter().enumerate().peekable();
        while let Some((index, first)) = rest.next() {
            // Claims on one path stand together; together they are one group of owners.
            let mut group = Group::default();
            self.add(&mut group, index, first, path, active, reach);
            while let Some((index, claim)) =
                rest.next_if(|(_, claim)| claim.pattern.cmp_specificity(&first.pattern) == Ordering::Equal)
            {
                self.add(&mut group, index, claim, path, active, reach);
            }
            let Some(strictest) = group.mode else { continue };
            let mine = group.mine && !group.manager_missing;
            // For its owners a closed path is closed as strictly as whoever closes it says, and not
            // as strictly as they keep others out.
            let mode = group.closed.filter(|_| mine).unwrap_or(strictest);
            let stricter = match &found {
                None => true,
                Some(Judgement::Refused { mode: milder, .. }) => mode > *milder,
                Some(_) => false,
            };
            if !stricter {
                continue;
            }
            let depth = first.pattern.steps().len();
            if let Some(text) = group.unknown {
                return Judgement::Undecided { mode, text, depth };
            }
            let why = match (group.closed.is_some(), group.mine) {
                (false, true) if mine => {
                    // An owner of a broader, stricter claim may write; the milder claim still reports.
                    return found.unwrap_or(Judgement::Owned { depth });
                }
                (true, _) => Refusal::Closed,
                (false, true) => Refusal::Manager,
                (false, false) => Refusal::Owned,
            };
            let mut claims = group.claims;
            let mut deepest = depth;
            if let Some(Judgement::Refused { claims: milder, depth, .. }) = found {
                claims.splice(0..0, milder);
                deepest = depth;
            }
            found = Some(Judgement::Refused { mode, why, claims, depth: deepest });
            if mode == Mode::Enforce {
                break;
            }
        }
        found.unwrap_or(Judgement::Uncovered)
    }

    fn add(
        &self,
        group: &mut Group<'p>,
        index: usize,
        claim: &'p Claim,
        path: &[Element],
        active: &Activities<'p, '_>,
        reach: Reach,
    ) {
        let reaches = match reach {
            Reach::Covering => claim.pattern.covers(path),
            Reach::EndingAt => claim.pattern.ends_at(path),
            Reach::Below => claim.pattern.reaches_below(path),
        };
        if !reaches {
            return;
        }
        let Some(owner) = self.policy.owners.get(claim.owner) else { return };
        match active.of(index, claim) {
            Activity::Inactive => return,
            Activity::Unknown(text) => group.unknown = Some(text),
            Activity::Active => {}
        }
        group.mode = group.mode.max(Some(claim.mode));
        if owner.subjects.is_empty() {
            group.closed = group.closed.max(Some(claim.mode));
        }
        if self.is(&owner.subjects) {
            let allowed = self.writes_as_required(owner);
            // One owner whose manager fits is enough.
            group.manager_missing = if group.mine { group.manager_missing && !allowed } else { !allowed };
            group.mine = true;
        }
        group.claims.push(claim);
    }

    /// Whether the requester is one of these subjects.
    pub(super) fn is(&self, subjects: &[Subject]) -> bool {
        subjects.iter().any(|subject| subject.matches(self.facts.requester, self.facts.namespace))
    }

    fn writes_as_required(&self, owner: &Owner) -> bool {
        let mut required = owner.managers.iter().filter(|manager| manager.usage == ManagerUse::Require);
        match required.next() {
            None => true,
            // A name taken from the User-Agent is not a declared one: only the option counts.
            Some(first) => self
                .facts
                .field_manager
                .is_some_and(|name| *first.name == *name || required.any(|manager| *manager.name == *name)),
        }
    }
}

/// The active claims on one path.
#[derive(Default)]
struct Group<'p> {
    mode: Option<Mode>,
    /// The strictest mode of the claims without subjects, if there are any.
    closed: Option<Mode>,
    mine: bool,
    manager_missing: bool,
    unknown: Option<String>,
    claims: Vec<&'p Claim>,
}
