//! What deciding costs, against the least that anybody does who parses the body.
//!
//! Input: reviews of three sizes, in memory. Output: a table of ratios of CPU time, and a failure when
//! one is above its bound. The floor is `serde_json::Value` of the same body, made and freed: what a
//! webhook does before it has looked at a single field. Deciding is everything from the bytes of the
//! body to the bytes of the answer, by the code that serves reviews. Only ratios are judged, of figures
//! taken in turns in one run, so that the machine and its load cancel out.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark stops at the first surprise"
)]

mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use fieldkeeper::admission::handle::Edge;
use fieldkeeper::admission::judge::Endpoint;
use fieldkeeper::admission::state::{Hooks, NoParents, Snapshot, Snapshots};
use fieldkeeper::ownership::rule::{PolicySet, Target};
use fieldkeeper::telemetry::metrics::{WebhookMetrics, registry};
use futures::FutureExt;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use support::Change;

/// Turns that each contender gets. The shortest one counts: load only ever adds.
const ROUNDS: usize = 400;

/// CPU time that one turn takes at least, in nanoseconds: long beside a reading of the clock.
const TURN: i64 = 400_000;

/// Reviews that a profile is made of.
const REPEAT: usize = 100_000;

/// Rules on other resources, and how much they may add.
const OTHER_RULES: usize = 10_000;
const OTHER_RULES_BOUND: f64 = 1.05;

/// Body size in bytes, bound for one changed field, bound for nothing changed.
const SIZES: [(usize, f64, f64); 3] = [(5_700, 0.65, 0.25), (34_000, 0.55, 0.20), (102_000, 0.45, 0.20)];

const CASES: [(&str, Change, Option<Reading>); 5] = [
    ("nothing changed", Change::None, Some(Reading::Unchanged)),
    ("owner changes a field", Change::Own, Some(Reading::OneField)),
    ("... under another manager", Change::Moved, Some(Reading::OneField)),
    ("owner by a condition", Change::Conditional, Some(Reading::OneField)),
    ("somebody else, refused", Change::Foreign, None),
];

/// Which bound a case has.
#[derive(Clone, Copy)]
enum Reading {
    Unchanged,
    OneField,
}

/// Something measured in turns with others.
struct Contender<'a> {
    work: Box<dyn Fn() + 'a>,
    repeats: u32,
    best: f64,
}

impl<'a> Contender<'a> {
    fn new(work: impl Fn() + 'a) -> Self {
        // Warm up, and find out how many make a turn.
        let mut repeats = 1;
        loop {
            let spent = time(&work, repeats);
            if spent >= TURN {
                return Self { work: Box::new(work), repeats, best: f64::INFINITY };
            }
            repeats *= 2;
        }
    }

    fn turn(&mut self) {
        let each = time(&*self.work, self.repeats) as f64 / f64::from(self.repeats);
        self.best = self.best.min(each);
    }
}

fn time(work: &dyn Fn(), repeats: u32) -> i64 {
    let start = support::cpu_nanos();
    for _ in 0..repeats {
        work();
    }
    support::cpu_nanos() - start
}

/// The edge as it serves, over these targets.
fn edge(targets: Vec<Arc<Target>>, runtime: &Runtime) -> Arc<Edge> {
    let snapshots = Snapshots::default();
    snapshots.store(Snapshot { policies: PolicySet::new(targets) });
    let hooks = Hooks {
        parents: Arc::new(NoParents),
        policy_review: Arc::new(|_| Box::pin(std::future::ready(Ok(Vec::new())))),
        notices: None,
        namespaces: fieldkeeper::cluster::namespaces::Namespaces::default(),
    };
    let metrics = WebhookMetrics::register(&mut registry());
    Arc::new(Edge::new(snapshots, hooks, metrics, runtime.handle().clone()))
}

/// Targets with the claims of the shipped policy, on resources that no review names.
fn others(rules: usize) -> impl Iterator<Item = Arc<Target>> {
    let ours = support::target();
    let claims = ours.policies[0].claims.len();
    (0..rules.div_ceil(claims)).map(move |number| {
        let resource = Arc::from(format!("others{number}"));
        Arc::new(Target {
            group: Arc::from(format!("group{}.example.com", number % 50)),
            resource,
            ..ours.clone()
        })
    })
}

fn answer(edge: &Arc<Edge>, body: &Bytes) -> Vec<u8> {
    edge.review(Endpoint::Validate, body.clone()).now_or_never().unwrap().unwrap()
}

fn main() -> ExitCode {
    // For what a review asks the cluster: nothing, here.
    let runtime = Builder::new_current_thread().build().unwrap();
    let plain = edge(vec![Arc::new(support::target())], &runtime);
    let mut args = std::env::args().skip_while(|arg| arg != "--repeat").skip(1);
    if let (Some(case), Some(size)) = (args.next(), args.next()) {
        repeat(&plain, CASES[case.parse::<usize>().unwrap()].1, size.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let crowded = edge(others(OTHER_RULES).chain([Arc::new(support::target())]).collect(), &runtime);
    let mut missed = 0;
    println!(
        "CPU time of one review, shortest of {ROUNDS} turns; floor: serde_json::Value of the same body\n"
    );
    println!("{:<34}{:>8}{:>10}{:>10}{:>8}{:>8}", "", "body B", "floor us", "ours us", "ratio", "bound");
    let mut row = |name: &str, bytes: usize, floor: f64, ours: f64, bound: Option<f64>| {
        let ratio = ours / floor;
        let met = bound.is_none_or(|bound| ratio <= bound);
        missed += u32::from(!met);
        let bound = bound.map_or_else(|| "-".to_owned(), |bound| format!("{bound:.2}"));
        let mark = if met { "" } else { "  MISSED" };
        println!("{name:<34}{bytes:>8}{:>10.1}{:>10.1}{ratio:>8.3}{bound:>8}{mark}", floor / 1e3, ours / 1e3);
    };
    for (size, one_field, unchanged) in SIZES {
        let pool = support::pool_for_body(size);
        let bodies = CASES.map(|(_, change, _)| Bytes::from(support::review(&pool, change)));
        check(&plain, &bodies);
        let managed =
            pool["metadata"]["managedFields"].to_string().len() as f64 / pool.to_string().len() as f64;
        println!("managedFields are {:.0} % of the object", managed * 100.0);
        let mut contenders = Vec::new();
        for body in &bodies {
            contenders.push(Contender::new(|| {
                drop(black_box(serde_json::from_slice::<Value>(black_box(body)).unwrap()));
            }));
            contenders.push(Contender::new(|| drop(black_box(answer(&plain, black_box(body))))));
        }
        let own = &bodies[1];
        contenders.push(Contender::new(|| drop(black_box(answer(&crowded, black_box(own))))));
        for _ in 0..ROUNDS {
            contenders.iter_mut().for_each(Contender::turn);
        }
        for (index, (name, _, reading)) in CASES.into_iter().enumerate() {
            let bound = reading.map(|reading| match reading {
                Reading::Unchanged => unchanged,
                Reading::OneField => one_field,
            });
            let (floor, ours) = (contenders[2 * index].best, contenders[2 * index + 1].best);
            row(name, bodies[index].len(), floor, ours, bound);
        }
        let (alone, crowded) = (contenders[3].best, contenders[2 * CASES.len()].best);
        row("with 10,000 other rules : without", own.len(), alone, crowded, Some(OTHER_RULES_BOUND));
        println!();
    }
    if missed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("{missed} bounds are missed");
    ExitCode::FAILURE
}

/// Decides one review over and over, for a profiler: `-- --repeat CASE BYTES`.
fn repeat(edge: &Arc<Edge>, change: Change, size: usize) {
    let body = Bytes::from(support::review(&support::pool_for_body(size), change));
    // By number, not by the clock: a profiler that counts instructions can compare two builds.
    for _ in 0..REPEAT {
        black_box(answer(edge, black_box(&body)));
    }
}

/// Fast and wrong would not count.
fn check(edge: &Arc<Edge>, bodies: &[Bytes; 5]) {
    for ((name, change, _), body) in CASES.iter().zip(bodies) {
        let answer: Value = serde_json::from_slice(&answer(edge, body)).unwrap();
        let response = &answer["response"];
        assert_eq!(response["allowed"], *change != Change::Foreign, "{name}: {answer}");
        if *change == Change::Foreign {
            assert_eq!(response["status"]["details"]["causes"][0]["field"], ".spec.maxNodes", "{answer}");
        } else {
            assert!(
                response.get("warnings").is_none() && response.get("auditAnnotations").is_none(),
                "{answer}"
            );
        }
    }
}
