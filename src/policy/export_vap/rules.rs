//! One unit as validations.
//!
//! In: a unit and who may write it. Out: an expression for each field, true where the write leaves it alone, or its
//! writer may, or a mutator did it, or, on CREATE, nobody did.

use k8s_openapi::api::admissionregistration::v1::Validation;
use serde_json::Value;

use super::cel::{Bool, optional, scalar, strings};
use super::claims::Writers;
use super::excuse;
use super::units::{LeftOut, OTHER, Shape, Unit};
use super::variables::{NEW, OLD, Variables, names};
use crate::ownership::defaults::{Coded, coded};
use crate::ownership::element::{Element, Scalar};
use crate::ownership::path::Path;
use crate::ownership::rule::{Policy, Target};
use crate::ownership::schema::ListKey;

/// Characters of one expression. The API server's parser takes 100,000; nothing that a person should be able to read
/// comes near.
pub const MAX_EXPRESSION: usize = 20_000;

/// Which changes a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// Those of exactly this path.
    Path(Path),
    /// Those of members and items one step below this path, but for these, which have rules of their own or none.
    Parts(Path, Vec<Element>),
    /// Deletion.
    Deletion,
    /// The count that `/scale` writes, but for the change between none and zero.
    Scale,
}

impl Covered {
    /// Whether a change of `path` is covered.
    #[must_use]
    pub fn is(&self, path: &[Element]) -> bool {
        match self {
            Self::Path(own) => own.elements() == path,
            Self::Parts(own, except) => match path.split_last() {
                Some((part, above)) => own.elements() == above && !except.contains(part),
                None => false,
            },
            Self::Deletion | Self::Scale => false,
        }
    }
}

/// Rules in the making.
pub(super) struct Rules<'p> {
    pub(super) policy: &'p Policy,
    pub(super) target: &'p Target,
    /// Whether creations are judged at all.
    pub(super) creations: bool,
    pub(super) variables: Variables<'p>,
    pub(super) validations: Vec<Validation>,
    pub(super) covered: Vec<Covered>,
    pub(super) left_out: Vec<LeftOut>,
}

impl<'p> Rules<'p> {
    /// Adds the rules of one unit.
    pub(super) fn unit(&mut self, unit: &Unit) {
        let done = match &unit.shape {
            Shape::Value { free } => self.value(unit, *free),
            Shape::Members { except } => self.members(unit, except),
            Shape::Items { except } => self.items(unit, except),
            Shape::Member(value) => self.member(unit, value),
            Shape::Item { keys, leaves } => self.item(unit, keys, leaves),
        };
        if let Err(why) = done {
            self.leave_out(&unit.path, why);
        }
    }

    fn leave_out(&mut self, path: &[Element], why: String) {
        let path: Path = path.iter().cloned().collect();
        let left_out = LeftOut { path: Some(path.to_string().replace(OTHER, "*")), why };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    fn writers(&mut self, path: &[Element]) -> Result<Writers<'p>, String> {
        let found = Writers::of(self.policy, path, &mut self.variables)?;
        found.ok_or_else(|| "no claim covers it".to_owned())
    }

    /// Adds one rule: it is fine if `same`, or if one of the others holds.
    fn rule(
        &mut self,
        path: &[Element],
        writers: &Writers<'p>,
        same: &str,
        others: impl IntoIterator<Item = Bool>,
    ) -> Result<(), String> {
        let allowed = writers.allowed(path, &mut self.variables)?;
        let fine = std::iter::once(Bool::Text("variables.unjudged".to_owned()))
            .chain([Bool::Text(same.to_owned()), allowed])
            .chain(others);
        let mut terms: Vec<String> = Vec::new();
        for term in fine {
            match term {
                Bool::Always => return Ok(()),
                Bool::Never => {}
                Bool::Text(text) if terms.contains(&text) => {}
                Bool::Text(text) => terms.push(text),
            }
        }
        let expression = terms.join(" ||\n");
        if expression.chars().count() > MAX_EXPRESSION {
            return Err(format!("its rule would be longer than {MAX_EXPRESSION} characters"));
        }
        let shown: Path = path.iter().cloned().collect();
        self.validations.push(Validation {
            expression,
            message: Some(writers.message(self.policy, &shown.to_string())),
            message_expression: None,
            reason: Some("Forbidden".to_owned()),
        });
        Ok(())
    }

    /// What lets a creation leave `new`, an optional, as it is: it has what nobody set.
    fn created(&mut self, path: &[Element], new: Option<&str>) -> Bool {
        if !self.creations {
            return Bool::Never;
        }
        let Some(defaults) = self.defaults(path) else {
            let why = "on creation: it has a default that CEL cannot be told".to_owned();
            self.leave_out(path, why);
            return Bool::Text("variables.creating".to_owned());
        };
        let literals: Option<Vec<String>> = defaults.iter().map(scalar).collect();
        match (literals.as_deref(), new) {
            (Some([]), _) => Bool::Never,
            (Some(literals), Some(new)) => Bool::all([
                Bool::Text("variables.creating".to_owned()),
                Bool::any(
                    literals.iter().map(|value| Bool::Text(format!("{new} == optional.of(dyn({value}))"))),
                ),
            ]),
            _ => {
                self.leave_out(path, "on creation: it may have a default".to_owned());
                Bool::Text("variables.creating".to_owned())
            }
        }
    }

    /// What the API server puts there by itself; `None` if that is more than plain values.
    fn defaults(&self, path: &[Element]) -> Option<Vec<Scalar>> {
        let by_schema = self.target.schema.defaults_at(path).ok()?;
        let mut texts: Vec<&str> = by_schema.iter().map(|default| default.text()).collect();
        match coded(&self.target.group, &self.target.resource, path) {
            None => {}
            Some(Coded::Json(json)) => texts.push(json),
            Some(Coded::ByObject) => return None,
        }
        texts.into_iter().map(|text| Scalar::from_json(&serde_json::from_str::<Value>(text).ok()?)).collect()
    }

    fn value(&mut self, unit: &Unit, free: bool) -> Result<(), String> {
        let path = &unit.path;
        let writers = self.writers(path)?;
        let (new, old) = sides(unit, path);
        let created = self.created(path, Some(&new));
        let is_map = |side: &str| format!("type({side}.orValue(0)) == map");
        let (present, both) = if free {
            let (new_is, old_is) = (is_map(&new), is_map(&old));
            (format!("{new}.hasValue() && !({old_is})"), Bool::Text(format!("({new_is} && {old_is})")))
        } else {
            (format!("{new}.hasValue()"), Bool::Never)
        };
        let excused = excuse::field(path, &present);
        self.rule(path, &writers, &format!("{new} == {old}"), [both, created, excused])?;
        self.covered.push(Covered::Path(path.iter().cloned().collect()));
        Ok(())
    }

    fn members(&mut self, unit: &Unit, except: &[std::sync::Arc<str>]) -> Result<(), String> {
        let path = &unit.path;
        let member = with(path, Element::field(OTHER));
        let writers = self.writers(&member)?;
        let (new, old) = sides(unit, path);
        let (new, old) = (format!("{new}.orValue({{}})"), format!("{old}.orValue({{}})"));
        let named = exempt("k", except.iter().map(|name| &**name));
        let excused = excuse::member(path, "'f:' + k");
        let same = format!(
            "({old}.all(k, {named}k in {new}) &&\n{new}.all(k, {named}k in {old} && {old}[k] == {new}[k] || {excused}))"
        );
        let created = self.created_parts(path, &member);
        self.rule_of_parts(path, &member, &writers, &same, created)?;
        let except = except.iter().map(|name| Element::Field(name.clone())).collect();
        self.covered.push(Covered::Parts(path.iter().cloned().collect(), except));
        Ok(())
    }

    fn items(&mut self, unit: &Unit, except: &[Scalar]) -> Result<(), String> {
        let path = &unit.path;
        let item = with(path, Element::value(Scalar::string(OTHER)));
        let writers = self.writers(&item)?;
        let (new, old) = sides(unit, path);
        let (new, old) = (format!("{new}.orValue([])"), format!("{old}.orValue([])"));
        let literals: Option<Vec<String>> = except.iter().map(scalar).collect();
        let literals = literals.ok_or("it has an item that is a number which CEL cannot hold")?;
        let named = if literals.is_empty() {
            String::new()
        } else {
            let literals: Vec<String> = literals.iter().map(|literal| format!("dyn({literal})")).collect();
            format!("k in [{}] || ", literals.join(", "))
        };
        // As FieldsV1 spells strings without special characters, and numbers.
        let text = excuse::member(path, "'v:\"' + string(k) + '\"'");
        let number = excuse::member(path, "'v:' + string(k)");
        let excused = Bool::all([text, number]);
        let same =
            format!("({old}.all(k, {named}k in {new}) &&\n{new}.all(k, {named}k in {old} || {excused}))");
        let created = self.created_parts(path, &item);
        self.rule_of_parts(path, &item, &writers, &same, created)?;
        let why =
            "items that FieldsV1 spells with escapes (quotes, backslashes, <, > and &), when they are added";
        self.leave_out(path, why.to_owned());
        let except = except.iter().map(|value| Element::value(value.clone())).collect();
        self.covered.push(Covered::Parts(path.iter().cloned().collect(), except));
        Ok(())
    }

    fn rule_of_parts(
        &mut self,
        path: &[Element],
        part: &[Element],
        writers: &Writers<'p>,
        same: &str,
        created: Bool,
    ) -> Result<(), String> {
        let before = self.validations.len();
        self.rule(part, writers, same, [created])?;
        let shown: Path = path.iter().cloned().collect();
        if let Some(validation) = self.validations.get_mut(before) {
            validation.message = Some(writers.message(self.policy, &shown.to_string()));
        }
        // Of empty labels and the like nothing is stored: to `decide` too they are none.
        if path.first() != Some(&Element::field("metadata")) {
            self.leave_out(path, "whether it is absent or there and empty".to_owned());
        }
        Ok(())
    }

    /// Defaults of a collection, or of what is in it.
    fn created_parts(&mut self, path: &[Element], part: &[Element]) -> Bool {
        match (self.created(path, None), self.created(part, None)) {
            (Bool::Never, Bool::Never) => Bool::Never,
            _ => Bool::Text("variables.creating".to_owned()),
        }
    }

    fn member(&mut self, unit: &Unit, value: &Scalar) -> Result<(), String> {
        let path = &unit.path;
        let list = path.split_last().map_or(&[][..], |(_, list)| list);
        let writers = self.writers(path)?;
        let literal = scalar(value).ok_or("it is a number that CEL cannot hold")?;
        let (new, old) = sides(unit, list);
        // Cheap however many others there are: what costs too much would not be judged.
        let there = |side: &str| format!("{literal} in {side}.orValue([])");
        let (new, old) = (there(&new), there(&old));
        let created = self.created_parts(list, path);
        let excused = excuse::field(path, &format!("!({old})"));
        self.rule(path, &writers, &format!("({new}) == ({old})"), [created, excused])?;
        self.leave_out(path, "a second item of the same value, where the kind lets one be".to_owned());
        self.covered.push(Covered::Path(path.iter().cloned().collect()));
        Ok(())
    }

    fn item(
        &mut self,
        unit: &Unit,
        keys: &[(ListKey, Scalar)],
        leaves: &[Vec<Element>],
    ) -> Result<(), String> {
        let path = &unit.path;
        let list = path.split_last().map_or(&[][..], |(_, list)| list);
        let keys: Vec<(&ListKey, &Scalar)> = keys.iter().map(|(key, value)| (key, value)).collect();
        let item = self.variables.item(list, &keys)?;
        let counts = (format!("size({})", item.new_items), format!("size({})", item.old_items));
        let came_or_went = Bool::Text(format!("{} != {}", counts.0, counts.1));
        if let Some(writers) = Writers::of(self.policy, path, &mut self.variables)? {
            let created = self.created_parts(list, path);
            let excused = excuse::field(path, &format!("{} == 0", counts.1));
            self.rule(path, &writers, &format!("{} == {}", counts.0, counts.1), [created, excused])?;
            self.covered.push(Covered::Path(path.iter().cloned().collect()));
        }
        for leaf in leaves {
            let rest = leaf.get(path.len()..).unwrap_or_default();
            let (new, old) = (optional(&item.new, names(rest)), optional(&item.old, names(rest)));
            let added = self.leaf(path, leaf, (&new, &old), &came_or_went);
            if let Err(why) = added {
                self.leave_out(leaf, why);
            }
        }
        Ok(())
    }

    /// A field of an item. The owner of the item may add and remove it with everything in it.
    fn leaf(
        &mut self,
        item: &[Element],
        leaf: &[Element],
        (new, old): (&str, &str),
        came_or_went: &Bool,
    ) -> Result<(), String> {
        let whole = Writers::of_item(self.policy, item, &mut self.variables)?;
        let writers = self.writers(leaf)?.or_where(came_or_went, &whole);
        let created = self.created(leaf, Some(new));
        let excused = excuse::field(leaf, &format!("{new}.hasValue()"));
        self.rule(leaf, &writers, &format!("{new} == {old}"), [created, excused])?;
        self.covered.push(Covered::Path(leaf.iter().cloned().collect()));
        Ok(())
    }

    /// The count that `/scale` writes. Its review does not show the object.
    pub(super) fn scale(&mut self, count: &[Element]) -> Result<(), String> {
        if !super::variables::is_field_path(count) {
            return Err("its path is no plain field".to_owned());
        }
        let writers = self.writers(count)?;
        if writers.is_conditional() {
            return Err("a condition reads the object, which a Scale does not show".to_owned());
        }
        let replicas = |side: &str| format!("{side}.?spec.?replicas.orValue(0)");
        let same =
            format!("request.?subResource.orValue('') != 'scale' || {} == {}", replicas(NEW), replicas(OLD));
        let shown: Path = count.iter().cloned().collect();
        let allowed = writers.by_the_stored_state();
        if allowed == Bool::Always {
            return Ok(());
        }
        let fine = Bool::any([allowed]);
        self.validations.push(Validation {
            expression: if fine == Bool::Never { same } else { format!("{same} || {fine}") },
            message: Some(writers.message(self.policy, &shown.to_string())),
            message_expression: None,
            reason: Some("Forbidden".to_owned()),
        });
        self.covered.push(Covered::Scale);
        Ok(())
    }
}

fn with(path: &[Element], element: Element) -> Vec<Element> {
    path.iter().cloned().chain([element]).collect()
}

/// What stands at the path in the new and in the stored object, as optionals.
fn sides(unit: &Unit, path: &[Element]) -> (String, String) {
    let new = if unit.typed { "object" } else { NEW };
    (optional(new, names(path)), optional(OLD, names(path)))
}

/// A term for members that have rules of their own.
fn exempt<'n>(variable: &str, named: impl Iterator<Item = &'n str>) -> String {
    let named: Vec<&str> = named.collect();
    if named.is_empty() { String::new() } else { format!("{variable} in {} || ", strings(named)) }
}
