//! What `deploy/` ships, read by the programs that will read it: BuildKit, Kubernetes' types, systemd, promtool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use postrider_testkit::services::services;
use serde_json::Value;

use crate::binary::Project;
use crate::outbox::TestOutbox;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const DOCKERFILE: &str = "deploy/docker/Dockerfile";
const UNIT: &str = "deploy/systemd/postrider.service";
/// Longer than the default `stop_timeout` (20 s), with time to write outcomes.
const STOP_SECS_MIN: i64 = 25;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a program of `scripts/services install` at the repository's root.
fn tool(name: &str, args: &[&str]) -> Output {
    let program = root().join("target/services/tools").join(name);
    let found = Command::new(&program)
        .args(args)
        .current_dir(root())
        .output();
    found.unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run scripts/services install",
            program.display()
        )
    })
}

#[track_caller]
fn passes(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{said}");
    printed
}

fn manifests() -> Vec<Value> {
    let files: Vec<String> = fs::read_dir(root().join("deploy/kubernetes"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .map(|name| format!("deploy/kubernetes/{name}"))
        .collect();
    let args: Vec<&str> = files.iter().map(String::as_str).collect();
    let printed = passes(tool("deploy-check", &args));
    let objects: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), files.len(), "{printed}");
    objects
}

fn object(kind: &str) -> Value {
    let found = manifests()
        .into_iter()
        .find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("there is no {kind}"))
}

#[test]
fn dockerfiles_pass_buildkits_own_checks() {
    passes(tool("deploy-check", &["Dockerfile", DOCKERFILE]));
}

/// A user without rights, a health check that needs no other program, images by version, and this workspace's Rust.
#[test]
fn the_image_is_what_the_docs_say() {
    let text = read(DOCKERFILE);
    let lines: Vec<&str> = text.lines().collect();
    let from = |line: &&&str| line.starts_with("FROM ");
    let images: Vec<&str> = lines.iter().filter(from).map(|line| &line[5..]).collect();
    assert_eq!(images.len(), 2, "one stage builds, one runs");
    let version = rust_version();
    assert!(
        images[0].starts_with(&format!("rust:{version}-")),
        "{}",
        images[0]
    );
    assert!(
        images
            .iter()
            .all(|image| image.contains(':') && !image.contains(":latest"))
    );
    assert!(
        images[0].ends_with(" AS build") && text.contains("\nCOPY --from=build /out/postrider ")
    );
    assert!(text.contains("\nUSER 65532:65532\n"));
    assert!(text.contains("CMD [\"postrider\", \"healthcheck\"]"));
    assert!(text.contains("\nENTRYPOINT [\"postrider\"]\nCMD [\"relay\"]\n"));
    for verb in ["relay", "healthcheck"] {
        let help = Command::new(BINARY)
            .args([verb, "--help"])
            .output()
            .unwrap();
        assert!(help.status.success(), "{verb}");
    }
    // What the build copies must be in the context.
    let ignored = read(".dockerignore");
    for needed in ["crates", "examples", "Cargo.toml", "Cargo.lock"] {
        assert!(root().join(needed).exists());
        assert!(!ignored.lines().any(|line| line == needed), "{needed}");
    }
}

fn rust_version() -> String {
    let manifest = read("Cargo.toml");
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""));
    line.unwrap().trim_end_matches('"').to_owned()
}

#[test]
fn the_unit_is_accepted_by_systemd_and_has_no_rights_to_lose() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("systemd");
    fs::create_dir_all(&dir).unwrap();
    let unit = dir.join("postrider.service");
    // systemd wants the program to be there.
    let text = read(UNIT);
    fs::write(&unit, text.replace("/usr/local/bin/postrider", BINARY)).unwrap();
    let analyze = |args: &[&str]| {
        Command::new("systemd-analyze")
            .args(args)
            .arg(&unit)
            .output()
    };
    let verified = analyze(&["verify"]).expect("scripts/services install brings systemd-analyze");
    assert!(
        verified.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
    passes(verified);
    // 10 is no protection at all; the threshold is in tenths.
    passes(analyze(&["security", "--no-pager", "--offline=true", "--threshold=15"]).unwrap());
    let stop = text
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="))
        .unwrap();
    assert!(stop.trim_end_matches('s').parse::<i64>().unwrap() >= STOP_SECS_MIN);
    // A wrong config is not tried again and again.
    assert!(text.contains("\nRestartPreventExitStatus=2\n"));
}

#[test]
fn replicas_share_the_work_and_survive_a_drained_node() {
    let deployment = object("Deployment");
    assert!(deployment["spec"]["replicas"].as_i64().unwrap() >= 2);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let budget = object("PodDisruptionBudget");
    assert_eq!(budget["spec"]["minAvailable"], 1);
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&object("Service")["spec"]["selector"], labels);
    let pod = &deployment["spec"]["template"]["spec"];
    assert!(pod["terminationGracePeriodSeconds"].as_i64().unwrap() >= STOP_SECS_MIN);
    let port = &pod["containers"][0]["ports"][0];
    assert_eq!(
        object("Service")["spec"]["ports"][0]["targetPort"],
        port["name"]
    );
    assert_eq!(
        object("ServiceMonitor")["spec"]["endpoints"][0]["port"],
        port["name"]
    );
}

#[test]
fn a_pod_has_probes_and_no_rights() {
    let deployment = object("Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    let ready = &container["readinessProbe"]["exec"]["command"];
    assert_eq!(
        ready,
        &serde_json::json!(["postrider", "healthcheck", "--ready"])
    );
    let rights = &container["securityContext"];
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["capabilities"]["drop"][0], "ALL");
    // Variables come from the secret alone; no manifest holds one.
    assert_eq!(container["envFrom"][0]["secretRef"]["name"], "postrider");
    assert!(container["env"].is_null());
    assert!(manifests().iter().all(|object| object["kind"] != "Secret"));
}

#[test]
fn kustomize_names_files_that_exist() {
    let text = read("deploy/kubernetes/kustomization.yaml");
    let resources: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("  - ")
                .filter(|name| name.ends_with(".yaml"))
        })
        .collect();
    assert_eq!(resources.len(), 4, "{resources:?}");
    for name in resources {
        assert!(
            root().join("deploy/kubernetes").join(name).exists(),
            "{name}"
        );
    }
}

/// The config that the manifests ship starts a relay, with what the secret would add.
#[tokio::test]
async fn the_shipped_config_starts_a_relay_that_its_probes_find_ready() {
    let outbox = TestOutbox::create("polyshop").await;
    let config = object("ConfigMap")["data"]["postrider.toml"]
        .as_str()
        .unwrap()
        .to_owned();
    let project = |listen: &str| {
        Project::new(&config)
            .variable("DATABASE_URL", outbox.url())
            .variable("ADMIN_TOKEN", "a-token-of-some-length")
            .variable("METRICS_TOKEN", "another-token-of-some-length")
            .variable("POSTRIDER__BROKER__MAIN__BOOTSTRAP", &services().kafka)
            .variable("POSTRIDER__ADMIN__LISTEN", listen)
    };
    let started = project("0.0.0.0:0");
    let relay = started.relay().await;
    let probes = project(&relay.address().await);
    probes.run(&["healthcheck"]).ok();
    postrider_testkit::eventually("ready", async || {
        let ran = probes.run(&["healthcheck", "--ready"]);
        if ran.code == Some(0) {
            Ok(())
        } else {
            Err(ran)
        }
    })
    .await;
}

#[test]
fn alert_rules_pass_promtool_and_their_own_tests() {
    passes(tool(
        "promtool",
        &["check", "rules", "deploy/prometheus/alerts.yml"],
    ));
    passes(tool(
        "promtool",
        &["test", "rules", "deploy/prometheus/alerts_test.yml"],
    ));
    let rules = read("deploy/prometheus/alerts.yml");
    let tests = read("deploy/prometheus/alerts_test.yml");
    let runbook = read("docs/runbook.md").to_lowercase().replace(' ', "-");
    for alert in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let raised = format!("        alertname: {alert}\n        exp_alerts:");
        assert!(tests.contains(&raised), "no test raises {alert}");
    }
    for section in rules
        .lines()
        .filter_map(|line| line.split_once("docs/runbook.md#"))
    {
        let heading = format!("##-{}\n", section.1);
        assert!(
            runbook.contains(&heading),
            "docs/runbook.md lacks {}",
            section.1
        );
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_can_import() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/postrider.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids: Vec<i64> = panels
        .iter()
        .map(|panel| panel["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "panels share an id");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let place = &panel["gridPos"];
        let right = place["x"].as_i64().unwrap() + place["w"].as_i64().unwrap();
        assert!(right <= 24, "{} leaves the grid", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(
                target["datasource"]["uid"], "${datasource}",
                "{}",
                panel["title"]
            );
        }
    }
}
