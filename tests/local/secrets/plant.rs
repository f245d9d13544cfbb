//! Secrets made from the corpus (`corpus.tsv`), each planted in its own place, and the search for them in the output.

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

const CORPUS: &str = include_str!("corpus.tsv");
/// A shorter piece may occur by chance.
const SHORTEST: usize = 7;

/// The kind of a corpus entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Shape,
    Key,
    Text,
    Command,
    Alias,
}

/// One line of the corpus.
pub(crate) struct Entry {
    pub(crate) class: Class,
    pub(crate) name: &'static str,
    template: &'static str,
}

/// The whole corpus.
pub(crate) fn corpus() -> Vec<Entry> {
    let lines = CORPUS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.splitn(3, '\t').collect();
            let [class, name, template] = parts.as_slice() else {
                panic!("not three columns: {line}");
            };
            let class = match *class {
                "shape" => Class::Shape,
                "key" => Class::Key,
                "text" => Class::Text,
                "command" => Class::Command,
                "alias" => Class::Alias,
                other => panic!("no class: {other}"),
            };
            Entry {
                class,
                name,
                template,
            }
        })
        .collect()
}

/// Numbers that depend only on the seed: splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let of = match alphabet {
            "an" => format!("{letters}0123456789"),
            "hex" => "0123456789abcdef".to_owned(),
            "up" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789".to_owned(),
            "lo" => "abcdefghijklmnopqrstuvwxyz0123456789".to_owned(),
            "let" => letters.to_owned(),
            "word" => format!("{letters}0123456789_-"),
            "b64" => format!("{letters}0123456789+/"),
            "num" => "0123456789".to_owned(),
            "pw" => format!("{letters}{letters}{letters}0123456789!#%&+,.;)=@^~/"),
            other => panic!("no alphabet: {other}"),
        };
        let of: Vec<char> = of.chars().collect();
        let mut text = String::new();
        for at in 0..length {
            text.push(match (alphabet, at) {
                // A password begins with a letter and has a digit, or it may be a word.
                ("pw" | "an", 0) => of[self.below(26)],
                ("pw" | "an", 1) => char::from(b'0' + u8::try_from(self.below(10)).unwrap()),
                ("pw" | "an", 2) => of[26 + self.below(26)],
                _ => of[self.below(of.len())],
            });
        }
        text
    }
}

/// A secret that must not come out.
struct Needle {
    /// A piece of the secret, or the whole secret.
    text: String,
    /// Its kind, and where it was planted.
    of: String,
}

/// Makes secrets and remembers them.
pub(crate) struct Planter {
    pub(crate) seed: u64,
    random: Random,
    needles: Vec<Needle>,
    planted: usize,
}

impl Planter {
    /// With the seed of the environment, or else a fixed one.
    pub(crate) fn new() -> Self {
        let seed = std::env::var("WINDROW_SEED").ok();
        Self::with(seed.and_then(|seed| seed.parse().ok()).unwrap_or(1))
    }

    pub(crate) fn with(seed: u64) -> Self {
        Self {
            seed,
            random: Random(seed),
            needles: Vec::new(),
            planted: 0,
        }
    }

    /// A new secret of this kind with the text around it, if it has one.
    pub(crate) fn plant(&mut self, entry: &Entry, place: &str) -> String {
        let of = format!("{:?} {} in {place}", entry.class, entry.name);
        let mut written = String::new();
        let mut secret = String::new();
        // Without {} all of it is the secret; a JSON text has its own braces.
        let bounds = entry
            .template
            .find("{<")
            .or(entry.template.find("{T<"))
            .or_else(|| entry.template.find("{$6"))
            .or_else(|| entry.template.find("{bot<"));
        let mut inside = bounds.is_none();
        let mut rest = entry.template;
        while let Some(next) = rest.chars().next() {
            let at = entry.template.len() - rest.len();
            if Some(at) == bounds {
                inside = true;
                rest = &rest[1..];
                continue;
            }
            if inside
                && bounds.is_some()
                && next == '}'
                && (!rest[1..].starts_with('<') || rest[1..].starts_with("</"))
            {
                inside = false;
                rest = &rest[1..];
                continue;
            }
            let made = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                Some((what, after)) if what.contains(':') && !what.contains(' ') => {
                    let (alphabet, length) = what.split_once(':').unwrap();
                    rest = after;
                    let piece = self.random.text(alphabet, length.parse().unwrap());
                    self.remember(&piece, &of);
                    piece
                }
                _ => {
                    rest = &rest[next.len_utf8()..];
                    next.to_string()
                }
            };
            written.push_str(&made);
            if inside {
                secret.push_str(&made);
            }
        }
        self.remember(&secret, &of);
        self.planted += 1;
        written
    }

    /// A password that needs no quotation marks, of letters and digits.
    pub(crate) fn password(&mut self, place: &str) -> String {
        let made = self.random.text("an", 16);
        self.remember(&made, place);
        self.planted += 1;
        made
    }

    /// A secret of any form that people choose or programs make; it is written as it is.
    pub(crate) fn secret(&mut self, place: &str) -> String {
        const FORMS: &[(&str, usize)] = &[
            ("pw", 18),
            ("pw", 10),
            ("an", 16),
            ("an", 8),
            ("hex", 32),
            ("hex", 64),
            ("b64", 44),
            ("lo", 12),
            ("let", 14),
            ("word", 24),
        ];
        let (alphabet, length) = FORMS[self.random.below(FORMS.len())];
        let mut made = self.random.text(alphabet, length);
        // A text that begins like a flag is the next flag.
        if made.starts_with(['-', '+', '/', '_']) {
            made.replace_range(..1, "x");
        }
        if self.random.below(6) == 0 {
            made = format!("{made} {}", self.random.text("an", 9));
        }
        self.remember(&made, place);
        self.planted += 1;
        made
    }

    /// A secret of a known shape.
    pub(crate) fn shape(&mut self, place: &str) -> String {
        let shapes: Vec<Entry> = corpus()
            .into_iter()
            .filter(|entry| entry.class == Class::Shape)
            .collect();
        let entry = &shapes[self.random.below(shapes.len())];
        self.plant(entry, place)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    fn remember(&mut self, secret: &str, of: &str) {
        let pieces = secret.split(|one: char| !one.is_ascii_alphanumeric());
        let all: Vec<&str> = std::iter::once(secret).chain(pieces).collect();
        for piece in all {
            let dull = piece.bytes().all(|byte| byte.is_ascii_digit()) && piece.len() < 12;
            if piece.len() >= SHORTEST && !dull && !FIXED.contains(&piece) {
                self.needles.push(Needle {
                    text: piece.to_owned(),
                    of: of.to_owned(),
                });
            }
        }
    }

    /// How many secrets there are.
    pub(crate) fn planted(&self) -> usize {
        self.planted
    }

    /// Which of them occur in these texts, by name.
    pub(crate) fn leaks<'t>(
        &self,
        texts: impl IntoIterator<Item = (String, &'t [u8])>,
    ) -> Vec<String> {
        let mut forms = Vec::new();
        let mut owners = Vec::new();
        for (at, needle) in self.needles.iter().enumerate() {
            forms.push(needle.text.clone());
            owners.push(at);
            for trace in traces(&needle.text) {
                forms.push(trace);
                owners.push(at);
            }
        }
        let search = AhoCorasick::new(&forms).unwrap();
        let mut found = std::collections::BTreeMap::new();
        for (name, text) in texts {
            for hit in search.find_overlapping_iter(text) {
                let needle = &self.needles[owners[hit.pattern().as_usize()]];
                let from = hit.start().saturating_sub(60);
                let to = (hit.end() + 20).min(text.len());
                let around = String::from_utf8_lossy(&text[from..to]).replace('\n', "⏎");
                found
                    .entry(needle.of.clone())
                    .or_insert_with(|| format!("{}: {name}: …{around}…", needle.of));
            }
        }
        found.into_values().collect()
    }

    /// Fails when any of them occurs in these texts.
    pub(crate) fn nothing_in<'t>(&self, texts: impl IntoIterator<Item = (String, &'t [u8])>) {
        let leaks = self.leaks(texts);
        assert!(
            leaks.is_empty(),
            "WINDROW_SEED={}: {} of {} secrets came out:\n{}",
            self.seed,
            leaks.len(),
            self.planted,
            leaks.join("\n")
        );
    }
}

/// Parts of templates that are the same in each secret.
const FIXED: &[&str] = &[
    "IncomingWebhook",
    "AGE",
    "SECRET",
    "service",
    "server",
    "T3BlbkFJ",
    "github",
    "pscale",
    "github_pat",
    "FLWSECK",
];

/// Base64 with padding, as a Secret has it.
pub(crate) fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// Base64 of a text at each place in a group, without the characters that its neighbours share.
pub(crate) fn traces(secret: &str) -> Vec<String> {
    (0..3)
        .map(|shift| {
            let all = base64(&format!("{}{secret}", "\0".repeat(shift)));
            let whole = (shift + secret.len()) * 8 / 6;
            all[[0, 2, 3][shift]..whole].to_owned()
        })
        .collect()
}

/// Everything of the corpus under keys of one tree: keys as they are, the rest as plain text.
pub(crate) fn tree(planter: &mut Planter, place: &str) -> Value {
    let mut tree = json!({});
    let mut notes = Vec::new();
    for entry in &corpus() {
        match entry.class {
            Class::Key => tree[entry.name] = planter.plant(entry, place).into(),
            Class::Shape => notes.push(json!(format!("see {}", planter.plant(entry, place)))),
            Class::Text => notes.push(planter.plant(entry, place).into()),
            Class::Command | Class::Alias => {}
        }
    }
    tree["notes"] = notes.into();
    tree
}

/// Everything of the corpus as lines: `KEY=value`, `key: value`, flags, texts, commands.
pub(crate) fn lines(planter: &mut Planter, place: &str, lead: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in &corpus() {
        let name = entry.name;
        let mut line = |text: String| lines.push(format!("{lead}{text}"));
        match entry.class {
            Class::Key => {
                line(format!("{name}={}", planter.plant(entry, place)));
                line(format!("a=1 {name}={} b=2", planter.plant(entry, place)));
                line(format!("{name}: {}", planter.plant(entry, place)));
                line(format!("'{name}': '{}'", planter.plant(entry, place)));
                line(format!("x --{name} {} -y", planter.plant(entry, place)));
                line(format!(
                    "msg=\"set {name}={} now\" n=1",
                    planter.plant(entry, place)
                ));
            }
            Class::Shape => {
                line(format!("see {} there", planter.plant(entry, place)));
                line(format!("({})", planter.plant(entry, place)));
            }
            Class::Text | Class::Command => line(planter.plant(entry, place)),
            Class::Alias => {}
        }
    }
    lines
}

/// Everything that may occur in commands.
pub(crate) fn commands(planter: &mut Planter, place: &str) -> Vec<String> {
    let corpus = corpus();
    let all = corpus.iter().filter(|entry| entry.class != Class::Alias);
    all.map(|entry| match entry.class {
        Class::Key => format!(
            "sed -i s/x/{}/ /etc/{}",
            planter.plant(entry, place),
            entry.name
        ),
        _ => planter.plant(entry, place),
    })
    .collect()
}
