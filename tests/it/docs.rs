//! The documentation says what is so: its samples compile, its commands run, its output is real.

use std::process::Command;
use std::sync::Arc;

use fieldkeeper::api::FieldPolicy;
use fieldkeeper::cluster::in_force::GroupResource;
use fieldkeeper::cluster::schemas::Kind;
use fieldkeeper::cluster::target::target;
use fieldkeeper::policy::compile::compile;
use fieldkeeper::policy::export_vap::{Action, EXCLUDED_NAMESPACES, Facts, generate};

use crate::harness::{ControlPlane, Options, repository};

const README: &str = include_str!("../../README.md");

/// The code blocks of one language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    text.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// What differs from run to run: ages, times, ports.
fn normalised(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let age = |word: &str| word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    words.iter().map(|word| if age(word) { "AGE" } else { word }).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_tour_in_the_readme_is_what_the_playground_prints() {
    let examples = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    let output =
        Command::new(examples.join("playground")).arg("--once").env("NO_COLOR", "1").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    // The first line tells how long it took.
    let (_, printed) = printed.split_once('\n').unwrap();
    let shown =
        README.split("<!-- tour: begin -->").nth(1).unwrap().split("<!-- tour: end -->").next().unwrap();
    let shown = blocks(shown, "console").first().copied().unwrap_or_default();
    let lines = |text: &str| text.trim().lines().map(normalised).collect::<Vec<_>>();
    assert_eq!(
        lines(shown),
        lines(printed),
        "the tour has changed: put this between the marks in README.md\n{printed}"
    );
}

#[test]
fn the_admission_policy_in_the_documentation_is_what_its_policy_becomes() {
    let page = std::fs::read_to_string(repository("docs/admission-policy.md")).unwrap();
    let policy: FieldPolicy = serde_saphyr::from_str(blocks(&page, "yaml")[0]).unwrap();
    let name = policy.metadata.name.as_deref().unwrap();
    let compiled = Arc::new(compile(name, 1, &policy.spec).unwrap());
    let crds = fieldkeeper::api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.plural == policy.spec.target.resource).unwrap();
    let kind = Kind::from_crd(&serde_json::to_value(crd).unwrap(), &policy.spec.target.version);
    let resource = GroupResource {
        group: policy.spec.target.group.clone(),
        resource: policy.spec.target.resource.clone(),
    };
    let facts = Facts {
        target: &target(&resource, &policy.spec.target.version, vec![compiled.clone()], &kind),
        schema_known: kind.unresolved.is_none(),
        subresources: kind.subresources.as_deref().unwrap(),
        custom: true,
        excluded_namespaces: &EXCLUDED_NAMESPACES.map(str::to_owned).into(),
        action: Action::Deny,
    };
    let (rules, binding) = *generate(&compiled, &facts).objects.unwrap();
    let documents = [serde_saphyr::to_string(&rules).unwrap(), serde_saphyr::to_string(&binding).unwrap()];
    let becomes = documents.join("---\n");
    let shown = page.split("<!-- generated: begin -->").nth(1).unwrap();
    let shown = shown.split("<!-- generated: end -->").next().unwrap();
    let shown = blocks(shown, "yaml").first().copied().unwrap_or_default();
    assert_eq!(
        shown, becomes,
        "put this between the marks in docs/admission-policy.md\n```yaml\n{becomes}```"
    );
}

#[test]
fn every_policy_in_the_documentation_compiles() {
    let folder = std::fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = folder.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut texts: Vec<String> = pages.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    texts.push(README.to_owned());
    let mut compiled = 0;
    for block in
        texts.iter().flat_map(|text| blocks(text, "yaml")).filter(|block| block.contains("kind: FieldPolicy"))
    {
        let policy: FieldPolicy =
            serde_saphyr::from_str(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        compile("sample", 1, &policy.spec).unwrap_or_else(|errors| panic!("{errors}\n{block}"));
        compiled += 1;
    }
    assert!(compiled > 0);
}

#[tokio::test]
async fn the_commands_of_the_readme_install_everything_and_the_samples_are_accepted() {
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    let commands =
        blocks(README, "sh").into_iter().flat_map(str::lines).filter(|line| line.starts_with("kubectl "));
    let mut ran = 0;
    for command in commands {
        // kubectl of the server's own release, in this repository, against this control plane.
        let shell = format!(
            "cd {}; alias kubectl={}\n{command}",
            repository(".").display(),
            plane.kubectl_path().display()
        );
        if command.contains("patch fieldpolicy") {
            apply_samples(&plane).await;
        }
        let output = plane.run("/bin/sh".into(), &plane.admin_kubeconfig(), &["-s"], &shell).await.unwrap();
        assert!(output.success, "{command}\n{}", output.text());
        ran += 1;
    }
    assert_eq!(ran, 4, "the README has other commands now: look whether this test still runs them all");
}

async fn apply_samples(plane: &ControlPlane) {
    let samples = std::fs::read_dir(repository("deploy/samples")).unwrap().map(|entry| entry.unwrap().path());
    for sample in samples {
        plane.apply(&std::fs::read_to_string(&sample).unwrap()).await.unwrap_or_else(|error| {
            panic!("{}: {error:#}", sample.display());
        });
    }
}
