use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::ownership::element::Scalar;

fn taint_value() -> Path {
    Path::from(vec![
        Element::field("spec"),
        Element::field("taints"),
        Element::key(vec![
            (Arc::from("key"), Scalar::string("x")),
            (Arc::from("effect"), Scalar::string("NoSchedule")),
        ]),
        Element::field("value"),
    ])
}

#[test]
fn a_path_prints_as_in_apply_conflicts() {
    assert_eq!(taint_value().to_string(), r#".spec.taints[effect="NoSchedule",key="x"].value"#);
    assert_eq!(DisplayPath(&taint_value()[..2]).to_string(), ".spec.taints");
    assert_eq!(Path::root().to_string(), ".");
}

#[test]
fn a_key_with_dots_does_not_pass_for_two_fields() {
    let one = Path::from(vec![Element::field("a.b")]);
    let two = Path::from(vec![Element::field("a"), Element::field("b")]);
    assert_ne!(one, two);
    assert_ne!(one.to_string(), two.to_string());
}

#[test]
fn stepping_down_and_up_leads_back() {
    let mut path = taint_value();
    let below = path.join(&Element::Index(0));
    assert_eq!(below.parent(), Some(path.clone()));
    assert!(below.starts_with(&path) && path.starts_with(&path) && !path.starts_with(&below));
    path.push(Element::Index(0));
    assert_eq!(path, below);
    assert_eq!(path.pop(), Some(Element::Index(0)));
    assert_eq!(path.len(), 4);
}

#[test]
fn the_root_is_above_everything_and_has_no_parent() {
    assert!(taint_value().starts_with(&Path::root()));
    assert_eq!(Path::root().parent(), None);
    assert_eq!(Path::root().pop(), None);
    assert!(Path::root().is_empty());
}

#[test]
fn a_node_comes_before_what_lies_below_it() {
    let path = taint_value();
    assert!(path.parent().is_some_and(|parent| parent < path));
}

#[test]
fn a_set_of_paths_can_be_asked_with_elements() {
    let paths: BTreeSet<Path> = [taint_value()].into();
    assert!(paths.contains(taint_value().elements()));
    assert_eq!(taint_value().iter().cloned().collect::<Path>(), taint_value());
}
