//! Who may write a path, as CEL.
//!
//! In: a path and the claims of one policy. Out: an expression that holds for those whom `decide` lets write it, or
//! why CEL cannot say that exactly. The order in which claims are asked is that of `ownership::judge`.

use std::cmp::Ordering;

use super::cel::Bool;
use super::identity::writes_as;
use super::variables::Variables;
use crate::ownership::compare::Compare;
use crate::ownership::element::Element;
use crate::ownership::explain::owners;
use crate::ownership::rule::{Claim, Mode, Policy};
use crate::ownership::verdict::OwnerName;

/// Characters of a message: a few lines in a terminal.
const MESSAGE_LENGTH: usize = 1000;

/// Which claims are asked, as in `ownership::judge`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those at the path or above it.
    Covering,
    /// Those that end exactly at it.
    EndingAt,
}

/// Who may write a path, by the stored object's state and by the new one's.
#[derive(Clone, Debug)]
pub(super) struct Writers<'p> {
    before: Bool,
    after: Bool,
    claims: Vec<&'p Claim>,
    conditional: bool,
}

impl<'p> Writers<'p> {
    /// Who may write `path`; `None` if no claim covers it.
    pub(super) fn of(
        policy: &'p Policy,
        path: &[Element],
        variables: &mut Variables<'p>,
    ) -> Result<Option<Self>, String> {
        Self::search(policy, path, Reach::Covering, variables)
    }

    /// Who may add and remove the whole item at `item`.
    pub(super) fn of_item(
        policy: &'p Policy,
        item: &[Element],
        variables: &mut Variables<'p>,
    ) -> Result<Self, String> {
        let nobody = Self { before: Bool::Never, after: Bool::Never, claims: Vec::new(), conditional: false };
        Ok(Self::search(policy, item, Reach::EndingAt, variables)?.unwrap_or(nobody))
    }

    fn search(
        policy: &'p Policy,
        path: &[Element],
        reach: Reach,
        variables: &mut Variables<'p>,
    ) -> Result<Option<Self>, String> {
        let reaches = |claim: &&Claim| match reach {
            Reach::Covering => claim.pattern.covers(path),
            Reach::EndingAt => claim.pattern.ends_at(path),
        };
        let claims: Vec<&Claim> = policy.claims.iter().filter(reaches).collect();
        if claims.is_empty() {
            return Ok(None);
        }
        let mut asked: Vec<&[&Claim]> = Vec::new();
        for group in claims.chunk_by(|a, b| a.pattern.cmp_specificity(&b.pattern) == Ordering::Equal) {
            asked.push(group);
            // It is active in every state: nothing broader is asked.
            if group.iter().any(|claim| claim.when.is_none()) {
                break;
            }
        }
        let all: Vec<&Claim> = asked.iter().flat_map(|group| group.iter().copied()).collect();
        for claim in &all {
            sayable(policy, claim)?;
        }
        // Without an active claim the path is nobody's: whoever asks for an owner finds none, any other may write.
        let end = if reach == Reach::Covering { Bool::Always } else { Bool::Never };
        let mut state = |after: bool| {
            asked
                .iter()
                .rev()
                .fold(end.clone(), |broader, group| group_of(policy, group, broader, after, variables))
        };
        let conditional = all.iter().any(|claim| claim.when.is_some());
        let before = state(false);
        let after = if conditional { state(true) } else { before.clone() };
        Ok(Some(Self { before, after, claims: all, conditional }))
    }

    /// Either of the two where `both` holds, else the first.
    pub(super) fn or_where(self, both: &Bool, other: &Self) -> Self {
        let add = |own: Bool, others: &Bool| Bool::any([own, Bool::all([both.clone(), others.clone()])]);
        Self {
            before: add(self.before, &other.before),
            after: add(self.after, &other.after),
            conditional: self.conditional || other.conditional,
            claims: self.claims,
        }
    }

    /// Whether the requester may write by the stored state alone.
    pub(super) fn by_the_stored_state(&self) -> Bool {
        self.before.clone()
    }

    /// Whether the requester may write. A write that legally changes what a condition reads may also rely on the new
    /// state, except for what conditions read themselves.
    pub(super) fn allowed(&self, path: &[Element], variables: &mut Variables<'p>) -> Result<Bool, String> {
        if !self.conditional {
            return Ok(self.before.clone());
        }
        let switched = variables.switched()?;
        if variables.is_read(path) {
            return Ok(self.before.clone());
        }
        Ok(Bool::any([self.before.clone(), Bool::all([switched, self.after.clone()])]))
    }

    /// Whether conditions decide.
    pub(super) fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// What a refusal says, without any value: whose the path is, and what works instead.
    pub(super) fn message(&self, policy: &Policy, path: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for claim in &self.claims {
            let Some(owner) = policy.owners.get(claim.owner) else { continue };
            let whose = if owner.subjects.is_empty() {
                "nobody may write it".to_owned()
            } else {
                format!("owned by {}", owners(&[OwnerName::of(owner)]))
            };
            let part = match &claim.when {
                Some(condition) => format!("{whose} while {condition}"),
                None => whose,
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let instead = self.claims.iter().find_map(|claim| claim.instead.as_deref());
        let instead = instead.unwrap_or("send the field unchanged, or leave it out; its owner can change it");
        let text = format!(
            "FieldPolicy {}: {path}: {}. Instead: {instead}",
            policy.name,
            parts.join("; otherwise ")
        );
        // The API server takes a message of one line only.
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        line.chars().take(MESSAGE_LENGTH).collect()
    }
}

/// The claims on one path: what they say where one of them is active, and else what broader ones say.
fn group_of<'p>(
    policy: &'p Policy,
    group: &[&'p Claim],
    broader: Bool,
    after: bool,
    variables: &mut Variables<'p>,
) -> Bool {
    let mut active = Vec::new();
    let mut closed = Vec::new();
    let mut mine = Vec::new();
    for claim in group {
        let Some(owner) = policy.owners.get(claim.owner) else { continue };
        let holds =
            claim.when.as_ref().map_or(Bool::Always, |condition| variables.condition(condition, after));
        if owner.subjects.is_empty() {
            closed.push(holds.clone());
        } else {
            mine.push(Bool::all([holds.clone(), variables.owner(claim.owner, || writes_as(owner))]));
        }
        active.push(holds);
    }
    let owned = Bool::all([Bool::any(closed).not(), Bool::any(mine)]);
    Bool::any(active).choose(owned, broader)
}

/// Why a claim that has to be asked cannot be said.
fn sayable(policy: &Policy, claim: &Claim) -> Result<(), String> {
    let owner = policy.owners.get(claim.owner).map_or("", |owner| &owner.name);
    if claim.mode != Mode::Enforce {
        return Err(format!("{owner} claims it in mode {}, which refuses nothing", claim.mode.as_str()));
    }
    if claim.compare != Compare::Exact {
        return Err(format!("{owner} claims it with a comparison other than Exact"));
    }
    if !claim.mutators.is_empty() {
        return Err(format!("{owner} claims it with mutators, whose changes look like anybody's"));
    }
    Ok(())
}
