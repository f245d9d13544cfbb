//! Rare features of a drawn directory, and their requirements.

use std::time::Duration;

use windrow_model::manifest::{FileContent, GroupKind, ObjectRef};
use windrow_simulate::{Arrival, Chance, DirectoryChange, Setup};

use crate::scenarios::{Drawn, object};

/// The file that RKE2 rejects, if there is one.
pub(crate) const REFUSED: &str = "refused.yaml";
/// A file that RKE2 can apply in part, and one that it cannot apply at all: their kinds never come.
pub(crate) const PARTLY: &str = "partly.yaml";
pub(crate) const HOPELESS: &str = "hopeless.yaml";
/// Prefix of files that share an Addon.
pub(crate) const PAIR: &str = "pair.";
/// It needs an object that one of these creates and another may remove.
pub(crate) const AFTER_PAIR: &str = "pairs.yaml";
/// It waits, and is removed permanently.
pub(crate) const AWAY: &str = "away.yaml";
/// It waits for an object that never comes, of a kind that gets another scope.
pub(crate) const WAITS_MOVED: &str = "waits-moved.yaml";
/// It needs an object that a user has deleted, and that comes again.
pub(crate) const AFTER_GONE: &str = "gone-needs.yaml";

/// Puts a file on each server from the start; if there is only one server, some come late.
fn put(setup: &mut Setup, path: &str, text: String, chance: &mut Chance) {
    if setup.joins.is_empty() && chance.one_in(4) {
        return change(setup, path, Some(text), chance.below(600));
    }
    let start = setup.scenario.start;
    for join in &mut setup.joins {
        join.files.write(path.to_owned(), text.clone(), start);
    }
    setup.files.write(path.to_owned(), text, start);
}

/// Writes or removes a file after this many seconds.
fn change(setup: &mut Setup, path: &str, text: Option<String>, after: u64) {
    setup.changes.push(DirectoryChange {
        after: Duration::from_secs(after),
        path: path.to_owned(),
        content: text.map(|text| FileContent::Bytes(text.into_bytes())),
        ..Default::default()
    });
}

/// Is there only one server, without Harvester?
fn is_simple(setup: &Setup) -> bool {
    setup.joins.is_empty() && setup.scenario.harvester.is_none()
}

/// Rare features that do not affect the rest: a file that RKE2 rejects, two files of one Addon, an object that comes and goes, a
/// file of RKE2 itself, a foreign marker.
pub(crate) fn draw(drawn: &mut Drawn, chance: &mut Chance) {
    let setup = &mut drawn.setup;
    let start = setup.scenario.start;
    let is_simple = is_simple(setup);
    match chance.below(6) {
        0 if is_simple => {
            let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n";
            put(setup, REFUSED, text.to_owned(), chance);
        }
        1 | 2 if is_simple => {
            let others = ["sub/pair.yaml", "pair.more.yaml", "sub/pair.yml"];
            for path in [
                PAIR.to_owned() + "yaml",
                others[chance.below(3) as usize].to_owned(),
            ] {
                // One of them may have to wait.
                let (text, _) = object(chance.below(1000) + 100, chance, &[]);
                put(setup, &path, text, chance);
            }
        }
        _ => {}
    }
    if chance.one_in(4) {
        let text = annotated(
            "both",
            "depends-on: \"/namespaces/default/Secret/fickle (exists), /namespaces/default/Secret/late (exists)\"",
        );
        put(setup, "both.yaml", text, chance);
        come_and_go(&mut setup.scenario.arrivals, chance);
    }
    if is_simple && chance.one_in(6) {
        let text = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: store, namespace: kube-system}\nspec: {chart: store}\n";
        put(setup, "chart.yaml", text.to_owned(), chance);
        let text = annotated(
            "after",
            "depends-on: helm.cattle.io/namespaces/kube-system/HelmChart/store",
        );
        put(setup, "after.yaml", text, chance);
    }
    let mut put = |path: &str, text: &str| {
        for join in &mut setup.joins {
            join.files.write(path.to_owned(), text, start);
        }
        setup.files.write(path.to_owned(), text, start);
    };
    if chance.one_in(6) {
        let text = annotated("coredns", "depends-on: /namespaces/default/Secret/never");
        put("rke2-coredns.yaml", &text);
    }
    if chance.one_in(6) {
        put(
            "others.yaml",
            &annotated("others", "depends-on: /namespaces/default/Secret/never"),
        );
        put("others.yaml.skip", "held by its owner\n");
        drawn.kept.push("others.yaml".to_owned());
    }
}

/// Two Secrets from outside: one exists, is removed and comes again, and the other comes at some time.
fn come_and_go(arrivals: &mut Vec<Arrival>, chance: &mut Chance) {
    let secret = |name: &str| ObjectRef::namespaced("", "Secret", "default", name);
    let mut after = 0;
    let mut next = |chance: &mut Chance| {
        after += 1 + chance.below(120);
        after
    };
    arrivals.push(comes(secret("fickle"), next(chance)));
    arrivals.push(goes(secret("fickle"), next(chance)));
    arrivals.push(comes(secret("late"), next(chance)));
    arrivals.push(comes(secret("fickle"), next(chance)));
}

fn annotated(name: &str, annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{windrow.dev/{annotation}}}\n"
    )
}

fn namespace(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

fn in_namespace(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

fn never(name: &str) -> String {
    format!("apiVersion: never.example.com/v1\nkind: Never\nmetadata: {{name: {name}}}\n")
}

/// An object that comes from outside, and one that is removed.
fn comes(object: ObjectRef, after: u64) -> Arrival {
    let json = match object.kind.as_str() {
        "Namespace" => serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
            "status": {"phase": "Active"}}),
        kind => serde_json::json!({"apiVersion": "v1", "kind": kind}),
    };
    Arrival {
        after: Duration::from_secs(after),
        objects: vec![(object, json)],
        ..Arrival::default()
    }
}

fn goes(object: ObjectRef, after: u64) -> Arrival {
    Arrival {
        after: Duration::from_secs(after),
        gone: vec![object],
        ..Arrival::default()
    }
}

/// More rare features: objects that RKE2 can apply in part, or not at all; a file with two deadlines; the objects of two files of
/// one Addon; a deletion before a file comes that needs the object; a file that goes and comes back while its requirements do.
pub(crate) fn draw_waits(drawn: &mut Drawn, chance: &mut Chance) {
    if !is_simple(&drawn.setup) {
        return;
    }
    // If RKE2 applies everything again in each pass, files of one Addon take each other's objects forever.
    let has = |setup: &Setup, name: &str| {
        let mut paths = setup.files.iter().map(|(path, _)| path);
        let mut changes = setup.changes.iter().map(|change| change.path.as_str());
        paths.any(|path| path.starts_with(name)) || changes.any(|path| path.starts_with(name))
    };
    let (fails, is_pair) = (has(&drawn.setup, REFUSED), has(&drawn.setup, PAIR));
    match chance.below(10) {
        0 if !is_pair => {
            let text = format!(
                "{}---\n{}",
                in_namespace("partly", "default"),
                never("partly")
            );
            put(&mut drawn.setup, PARTLY, text, chance);
            // A foreign marker hides it for a while.
            let marker = format!("{PARTLY}.skip");
            let from = 200 + chance.below(400);
            let text = Some("somebody else\n".to_owned());
            change(&mut drawn.setup, &marker, text, from);
            change(
                &mut drawn.setup,
                &marker,
                None,
                from + 10 + chance.below(100),
            );
        }
        1 if !is_pair => {
            put(&mut drawn.setup, HOPELESS, never("hopeless"), chance);
            drawn.kept.push(HOPELESS.to_owned());
        }
        2 => draw_two_deadlines(&mut drawn.setup, chance),
        3 => draw_taken_away(&mut drawn.setup, chance),
        4 if !fails && !is_pair => draw_after_pair(&mut drawn.setup, chance),
        5 => draw_after_gone(&mut drawn.setup, chance),
        6 | 7 => draw_again(&mut drawn.setup, chance),
        8 => draw_across(&mut drawn.setup, chance),
        9 => draw_named(&mut drawn.setup, chance),
        _ => {}
    }
}

/// Advice on an object that never comes yields soon; a namespace from a file which waits itself is worth a longer wait. RKE2
/// could apply some of it.
fn draw_two_deadlines(setup: &mut Setup, chance: &mut Chance) {
    let advised = annotated(
        "two",
        "depends-on: /namespaces/default/Secret/never (advisory)",
    );
    let text = format!("{advised}---\n{}", in_namespace("two", "two"));
    put(setup, "two.yaml", text, chance);
    let waits = annotated("space", "depends-on: /namespaces/default/Secret/two");
    let text = format!("{waits}---\n{}", namespace("two"));
    put(setup, "two-space.yaml", text, chance);
    let secret = ObjectRef::namespaced("", "Secret", "default", "two");
    // Longer than any deadline, now and then.
    let after = [150, 1900][usize::from(chance.one_in(3))] + chance.below(600);
    setup.scenario.arrivals.push(comes(secret, after));
}

/// A waiting file is removed permanently.
fn draw_taken_away(setup: &mut Setup, chance: &mut Chance) {
    let text = annotated("away", "depends-on: /namespaces/default/Secret/never");
    setup.files.write(AWAY, text, setup.scenario.start);
    for after in [30 + chance.below(600), 2400] {
        change(setup, AWAY, None, after);
    }
}

/// One of two files of a name creates a namespace, and the other may have to wait.
fn draw_after_pair(setup: &mut Setup, chance: &mut Chance) {
    let other = ["sub/pair.yaml", "pair.more.yaml"][chance.below(2) as usize];
    let (waits, _) = object(chance.below(1000) + 100, chance, &[]);
    put(
        setup,
        &(PAIR.to_owned() + "yaml"),
        namespace("pair"),
        chance,
    );
    put(setup, other, waits, chance);
    put(setup, AFTER_PAIR, in_namespace("after", "pair"), chance);
}

/// A user deletes a namespace that a file has created, another file comes that needs it, and it comes again.
fn draw_after_gone(setup: &mut Setup, chance: &mut Chance) {
    let start = setup.scenario.start;
    let gone = ObjectRef::cluster("", "Namespace", "gone");
    setup
        .files
        .write("gone-brings.yaml", namespace("gone"), start);
    let goes_after = 60 + chance.below(240);
    let needs_after = goes_after + 60 + chance.below(240);
    let text = in_namespace("needs", "gone");
    change(setup, AFTER_GONE, Some(text), needs_after);
    let arrivals = &mut setup.scenario.arrivals;
    arrivals.push(goes(gone.clone(), goes_after));
    arrivals.push(comes(gone, needs_after + chance.below(600)));
}

/// A file goes, its requirement goes, and the file comes back with other content; its requirement comes again later.
fn draw_again(setup: &mut Setup, chance: &mut Chance) {
    let secret = ObjectRef::namespaced("", "Secret", "default", "again");
    let text = |number: u64| {
        let needs = annotated(
            "again",
            "depends-on: /namespaces/default/Secret/again (exists)",
        );
        format!("{needs}data: {{number: \"{number}\"}}\n")
    };
    setup
        .files
        .write("again.yaml", text(0), setup.scenario.start);
    let mut at = 60 + chance.below(60);
    setup.scenario.arrivals.push(comes(secret.clone(), at - 50));
    for number in 1..=1 + chance.below(5) {
        let mut next = |chance: &mut Chance| {
            at += 1 + chance.below(50);
            at
        };
        change(setup, "again.yaml", None, next(chance));
        let goes_after = next(chance) - 40;
        setup
            .scenario
            .arrivals
            .push(goes(secret.clone(), goes_after));
        change(setup, "again.yaml", Some(text(number)), next(chance));
        setup
            .scenario
            .arrivals
            .push(comes(secret.clone(), next(chance)));
    }
}

/// A file waits, and contains a namespace that another one needs in a directory that RKE2 reads later.
fn draw_across(setup: &mut Setup, chance: &mut Chance) {
    let waits = annotated("across", "depends-on: /namespaces/default/Secret/across");
    let text = format!("{waits}---\n{}", namespace("across"));
    put(setup, "across.yaml", text, chance);
    let needs = in_namespace("needs", "across");
    put(setup, "sub/across-needs.yaml", needs, chance);
    let secret = ObjectRef::namespaced("", "Secret", "default", "across");
    let arrival = comes(secret, 30 + chance.below(900));
    setup.scenario.arrivals.push(arrival);
}

/// A workload names an object of a later file: both may be applied in the same pass. A file that needs a later namespace may not.
fn draw_named(setup: &mut Setup, chance: &mut Chance) {
    let workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: named, namespace: default}\nspec:\n  template:\n    spec: {serviceAccountName: named}\n";
    put(setup, "named.yaml", workload.to_owned(), chance);
    let account =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: named, namespace: default}\n";
    let text = format!("{account}---\n{}", namespace("named"));
    put(setup, "nameds.yaml", text, chance);
    let needs = in_namespace("needs", "named");
    put(setup, "named-first.yaml", needs, chance);
}

/// A kind gets another version before the object comes that a file waits for, or another scope: then a file needs no namespace
/// any more.
pub(crate) fn draw_moves(drawn: &mut Drawn, chance: &mut Chance) {
    let setup = &mut drawn.setup;
    if !is_simple(setup) || !chance.one_in(4) {
        return;
    }
    let kind = GroupKind::new("example.com", "Moved");
    let served_after = 30 + chance.below(200);
    let moves_after = served_after + 10 + chance.below(200);
    let mut arrivals = Vec::new();
    let moved = |namespaced| Arrival {
        after: Duration::from_secs(moves_after),
        moved: vec![(kind.clone(), namespaced)],
        ..Arrival::default()
    };
    arrivals.push(Arrival {
        after: Duration::from_secs(served_after),
        kinds: vec![(kind.clone(), true)],
        ..Arrival::default()
    });
    if chance.one_in(2) {
        let waits = annotated(
            "after-moved",
            "depends-on: example.com/namespaces/default/Moved/moved (exists)",
        );
        put(setup, "after-moved.yaml", waits, chance);
        arrivals.push(moved(true));
        let object = ObjectRef::namespaced("example.com", "Moved", "default", "moved");
        arrivals.push(comes(object, moves_after + 10 + chance.below(200)));
    } else {
        let object = "apiVersion: example.com/v1\nkind: Moved\nmetadata: {name: moved, namespace: nowhere}\n";
        put(setup, "moved.yaml", object.to_owned(), chance);
        arrivals.push(moved(false));
        // A file waits for an object of the kind.
        let waits = annotated(
            "waits-moved",
            "depends-on: example.com/namespaces/default/Moved/never (exists)",
        );
        setup.files.write(WAITS_MOVED, waits, setup.scenario.start);
        drawn.kept.push(WAITS_MOVED.to_owned());
    }
    setup.scenario.arrivals.extend(arrivals);
}
