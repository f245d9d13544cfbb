//! Level 4: boots are recorded on real parts, Windrow learns from their flights, and what it learned is true.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod boot;
mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use futures::stream::{self, StreamExt as _};
use world::World;

/// How many clusters there are at once.
const AT_ONCE: usize = 6;

/// Records these boots; true when the parts are here.
async fn record(worlds: Vec<World>, collected: &Path) -> bool {
    let flights: Vec<_> = stream::iter(worlds)
        .map(|world| async move { boot::record(&world, collected).await })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    flights.iter().all(Option::is_some)
}

fn typed(command: &str, place: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", command])
        .current_dir(place)
        .env("PATH", path)
        .output()
        .unwrap()
}

/// What a page has typed, each with the exit code that it names.
fn commands(page: &str) -> Vec<(&str, i32)> {
    let blocks = page.split("```console\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    lines
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|command| {
            let code = command.split_once("exit code ").map_or(0, |(_, code)| {
                let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().unwrap()
            });
            (command, code)
        })
        .collect()
}

#[tokio::test]
async fn the_second_image_is_better_than_the_first() {
    let place = tempfile::tempdir().unwrap();
    let (reports, manifests) = (place.path().join("reports"), place.path().join("manifests"));
    fs::create_dir_all(&reports).unwrap();
    fs::create_dir_all(&manifests).unwrap();
    let worlds: Vec<World> = (0..5).map(World::new).collect();
    for (name, text) in boot::manifests() {
        if name.contains("widget") {
            fs::write(manifests.join(name), text).unwrap();
        }
    }
    if !record(worlds, &reports).await {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/second-image.md")).unwrap();
    let commands = commands(&page);
    assert_eq!(commands.len(), 5);
    for (command, code) in commands {
        let output = typed(command, place.path());
        let said = format!(
            "{command}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(code), "{said}");
        if command.contains("show") {
            assert!(said.contains("the chart widgets"), "{said}");
            // The lines are as wide as the terminal.
            let words: Vec<&str> = said.split_whitespace().collect();
            assert!(words.join(" ").contains("on 5 of 5 boots"), "{said}");
        }
    }
    // Nothing on these kinds proves their provider: one is of a chart's `crds/`, an operator made the other.
    let learned = fs::read_to_string(place.path().join("learned.yaml")).unwrap();
    let (known, boots) = learned.split_once("\nboots:").unwrap();
    for kind in ["Gadget", "Spring"] {
        let of_any_boot = format!("{kind}.{}s.example.com", kind.to_lowercase());
        assert!(boots.contains(&of_any_boot), "{boots}");
        assert!(!known.contains(&format!("[{kind}]")), "{known}");
    }
}
