//! RKE2's own configuration: `config.yaml` and its drop-ins.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::json;
use windrow_fuzz::Draw;
use windrow_model::manifest::{NodeValue, yaml};
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use super::manifests::{self, PIECES, SCALARS};
use super::{Listed, Opinions, SecondOpinion, compare};

const KEYS: [&str; 6] = [
    "kube-apiserver-arg",
    "kubelet-arg",
    "\"kubelet-arg\"",
    "token",
    "<<",
    "node-label",
];

const ITEMS: [&str; 8] = [
    "feature-gates=A=true",
    "\"a=b \"",
    "' v=2'",
    "[x=1]",
    "[x=1, y=2]",
    "{a: b}",
    "&a v=3",
    "*a",
];

fn item(draw: &mut Draw) -> String {
    match draw.below(3) {
        0 => draw.text(&SCALARS, 3),
        _ => (*draw.one(&ITEMS)).to_owned(),
    }
}

/// One file.
fn file(draw: &mut Draw) -> String {
    let mut text = String::new();
    for _ in 0..draw.below(4) {
        let (key, plus) = (*draw.one(&KEYS), *draw.one(&["", "", "+"]));
        let key = match key.strip_suffix('"') {
            Some(open) => format!("{open}{plus}\""),
            None => format!("{key}{plus}"),
        };
        match draw.below(4) {
            0 => text += &format!("{key}: {}\n", item(draw)),
            1 => text += &format!("{key}:\n"),
            2 => text += &format!("{key}: [{}, {}]\n", item(draw), item(draw)),
            _ => {
                text += &format!("{key}:\n");
                for _ in 0..draw.below(3) {
                    text += &format!("- {}\n", item(draw));
                }
            }
        }
    }
    if draw.below(4) == 0 {
        let bytes = draw.near(&[text.into_bytes()], &PIECES);
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    text
}

const NO_KEY: &str = "a key that is no text";
const NO_PAIRS: &str = "a list of nothing in the place of pairs";
const MARKS: &str = "two byte-order marks";
const DIGIT: &str = "the last of seventeen digits";
const NO_TEXT: &str = "an item that is no text";

/// What of this is read differently.
const LISTED: [Listed; 7] = [
    Listed {
        name: NO_KEY,
        example: "? [a]\n: b\n",
        _why: "of such a key Go makes a flag that RKE2 passes over; Windrow calls the file unreadable, and names the line",
    },
    Listed {
        name: NO_PAIRS,
        example: "-\n",
        _why: "Go makes a flag without a name of it, which RKE2 passes over; Windrow calls the file unreadable",
    },
    Listed {
        name: NO_TEXT,
        example: "kubelet-arg: [{a: b}]\n",
        _why: "of a list or map in the place of a text Go prints its inside; no component starts with it, and Windrow says so",
    },
    Listed {
        name: MARKS,
        example: "\u{feff}\u{feff}kubelet-arg: a\n",
        _why: "behind two byte-order marks Go's reader loses a letter",
    },
    Listed {
        name: DIGIT,
        example: "kubelet-arg: 18446744073709551616101e-7\n",
        _why: "of two shortest texts for one number Go takes the even one",
    },
    manifests::TAG,
    manifests::COLON,
];

/// Why a file that RKE2 takes is refused here.
fn refusal(texts: &[String]) -> Option<&'static str> {
    texts.iter().find_map(|text| match yaml::pairs(text) {
        Err(problems) => problems.iter().find_map(|problem| {
            let no_key = problem
                .message
                .contains("cannot be a key")
                .then_some(NO_KEY);
            no_key.or_else(|| manifests::refusal(&problem.message))
        }),
        Ok(Some(node)) => matches!(node.value, NodeValue::Sequence(_)).then_some(NO_PAIRS),
        Ok(None) => None,
    })
}

/// The texts, those of numbers as the numbers that they are.
fn numbers(lists: &BTreeMap<&str, Vec<&str>>) -> Vec<String> {
    let shown = |text: &&str| {
        text.parse::<f64>()
            .map_or((*text).to_owned(), |number| number.to_string())
    };
    lists.values().flatten().map(shown).collect()
}

fn opinions(texts: &[String], go: &mut SecondOpinion) -> Opinions {
    let files: Vec<Rke2ConfigFile> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| match number {
            0 => Rke2ConfigFile::new(ConfigLayer::Main, "/c/config.yaml", text),
            _ => Rke2ConfigFile::new(
                ConfigLayer::DropIn,
                format!("/c/config.yaml.d/{number}.yaml"),
                text,
            ),
        })
        .collect();
    let merged = merge(&files);
    let has = |code: Code| merged.findings.iter().find(|finding| finding.code == code);
    let refused = has(Code::ConfigFileRefused);
    let theirs = go.of('c', json!(texts).to_string().as_bytes());
    let differ = |ours: &dyn Debug, theirs: &dyn Debug| {
        Opinions::Differ(format!("{texts:?}\nours {ours:?}\nGo's {theirs:?}"))
    };
    if texts
        .iter()
        .any(|text| text.starts_with("\u{feff}\u{feff}"))
    {
        return Opinions::Listed(MARKS);
    }
    let flags = match (theirs, refused) {
        (Err(_), Some(_)) => return Opinions::Same,
        (Ok(flags), None) => flags,
        (Ok(flags), Some(_)) => {
            let listed = refusal(texts).map(Opinions::Listed);
            return listed.unwrap_or_else(|| differ(&refused, &flags));
        }
        (Err(why), None) => return differ(&refused, &why),
    };
    let ours: BTreeMap<&str, Vec<&str>> = merged
        .lists()
        .map(|(key, items)| (key, items.iter().map(|item| item.text.as_str()).collect()))
        .collect();
    let flags: BTreeMap<String, Vec<String>> = serde_json::from_value(flags).unwrap();
    let theirs: BTreeMap<&str, Vec<&str>> = flags
        .iter()
        .filter(|(key, _)| key.ends_with("-arg"))
        .map(|(key, texts)| (key.as_str(), texts.iter().map(String::as_str).collect()))
        .collect();
    let says = |what: &str| {
        merged
            .findings
            .iter()
            .any(|finding| finding.message.contains(what))
    };
    let is_named = says(" is a map") || says(" is a list");
    match ours == theirs {
        true => Opinions::Same,
        false if is_named => Opinions::Listed(NO_TEXT),
        false if numbers(&ours) == numbers(&theirs) => Opinions::Listed(DIGIT),
        false => differ(&ours, &theirs),
    }
}

#[test]
fn rke2s_configuration_is_merged_as_its_libraries_merge_it() {
    compare(
        &LISTED,
        |example| vec![example.to_owned()],
        |draw| (0..=draw.below(3)).map(|_| file(draw)).collect(),
        |texts, go| opinions(texts, go),
    );
}
