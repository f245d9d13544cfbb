//! The installed kubelet as an oracle: it knows exactly the gates of its version, and all components of that version
//! have the same ones.
//!
//! `kubelet --feature-gates=LIST --config=/nonexistent` reads the list first and then fails because the file is
//! missing, within a tenth of a second and without touching anything (`tests/kubernetes/gates_kubelet.rs`).

use std::time::Duration;

use windrow_gates::{ComponentRefusal, last_refusal};
use windrow_plan::version::Version;

use super::program::NodeProgram;
use crate::layout::Layout;

/// It takes a tenth of a second; more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// No machine has this file.
const NOWHERE: &str = "/nonexistent";
/// The kubelet's output when it accepts the gates.
const TAKEN: &str = "failed to load kubelet config file";

#[derive(Debug)]
pub struct Kubelet {
    program: NodeProgram,
    pub version: Version,
}

impl Kubelet {
    /// The one that RKE2 has unpacked; `None` before its first start, if it does not print its version, or if the tree belongs
    /// to another machine.
    pub async fn find(layout: &Layout) -> Option<Self> {
        let path = layout.data_dir().join("bin/kubelet");
        Self::of(NodeProgram::new(layout, path)?).await
    }

    async fn of(program: NodeProgram) -> Option<Self> {
        let said = run(&program, &["--version"]).await.ok()?;
        let version = said.split_whitespace().find_map(|word| word.parse().ok())?;
        Some(Self { program, version })
    }

    /// Asks it for a list of gates. Older minor versions name the first refused gate, later ones name all (1.36 does).
    ///
    /// # Errors
    ///
    /// In a line, when its answer cannot be understood: then the result is unknown.
    pub async fn refuses(
        &self,
        gates: &[(String, bool)],
    ) -> Result<Option<ComponentRefusal>, String> {
        let list: Vec<String> = gates
            .iter()
            .map(|(gate, value)| format!("{gate}={value}"))
            .collect();
        let list = format!("--feature-gates={}", list.join(","));
        let said = run(&self.program, &[&list, &format!("--config={NOWHERE}")]).await?;
        if let Some(refusal) = last_refusal(&said, ..) {
            return Ok(Some(refusal));
        }
        match said.contains(TAKEN) {
            true => Ok(None),
            false => Err("it says something else".to_owned()),
        }
    }

    /// All of these gates that it refuses. They are first tried together, as it accepts all or none. A refusal names
    /// gates of the list, or only others: those that are on by default and depend on one of the list.
    ///
    /// # Errors
    ///
    /// In a line, when an answer cannot be understood.
    pub async fn all_refused(
        &self,
        gates: &[(String, bool)],
    ) -> Result<Vec<ComponentRefusal>, String> {
        let mut left = gates.to_vec();
        let mut refused = Vec::new();
        while let Some(mut refusal) = self.refuses(&left).await? {
            let (named, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|(gate, _)| refusal.gates.contains(gate));
            left = rest;
            if named.is_empty() {
                refused.push(refusal);
                break;
            }
            refusal.gates = named.into_iter().map(|(gate, _)| gate).collect();
            refused.push(refusal);
        }
        Ok(refused)
    }
}

async fn run(program: &NodeProgram, arguments: &[&str]) -> Result<String, String> {
    let mut command = program.command();
    command.args(arguments);
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", program.path().display());
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => Ok(format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(told(&format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// It accepts New, refuses Old, and knows no other gate.
    const PROGRAM: &str = r#"#!/bin/sh
case "$1" in
--version) echo "Kubernetes v1.34.2+rke2r1" ;;
*Old=*) echo 'E1121 20:00:00.1 1 run.go:72] "command failed" err="failed to set feature gates from initial flags-based config: unrecognized feature gate: Old"' ;;
*New=*) echo "failed to load kubelet config file, path: /nonexistent" ;;
esac
"#;

    #[tokio::test]
    async fn a_kubelet_refuses_a_gate_takes_it_or_says_something_that_tells_nothing() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path());
        let program = layout.data_dir().join("bin/kubelet");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        // Another process writes the program: one that is open for writing in this one cannot be run.
        let written = std::process::Command::new("sh")
            .args(["-c", r#"printf %s "$1" >"$0"; chmod +x "$0""#])
            .args([program.as_os_str(), PROGRAM.as_ref()])
            .status();
        assert!(written.unwrap().success());
        assert!(Kubelet::find(&layout).await.is_none(), "it is not run");
        let kubelet = Kubelet::of(NodeProgram::of_test(program)).await.unwrap();
        assert_eq!(kubelet.version, "v1.34.2+rke2r1".parse().unwrap());
        let gates = |name: &str| [(name.to_owned(), true)];
        assert_eq!(kubelet.refuses(&gates("New")).await, Ok(None));
        let refused = kubelet.refuses(&gates("Old")).await.unwrap().unwrap();
        assert_eq!(refused.gates, ["Old"]);
        assert!(kubelet.refuses(&gates("Other")).await.is_err());
    }
}
