//! What a component demands of the values of its arguments, alone and together: `data/argument-rules.txt`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use windrow_model::findings::Location;
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::{ConfigItem, MergedConfig};
use windrow_plan::rke2::value_form::seconds;
use windrow_plan::version::Version;

use super::findings::Findings;
use super::known_arguments::{KNOWN, is_in, whole};
use super::kubelet_fields;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let lines = include_str!("../data/argument-rules.txt").lines();
    lines.filter_map(Rule::read).collect()
});

struct Rule {
    component: &'static str,
    demand: Demand,
    /// It does not hold beside this one.
    unless: Option<Use>,
    /// The first minor with it.
    from: u16,
}

enum Demand {
    Range {
        flag: &'static str,
        low: &'static str,
        high: &'static str,
        /// It is judged beside this one only.
        with: Option<Use>,
        /// 0 is the default.
        takes_zero: bool,
    },
    /// The first value, this many times, is less than the second (or as much).
    Below {
        less: Defaulted,
        more: Defaulted,
        times: f64,
        or_equal: bool,
    },
    Needs(Use, &'static str),
    Not(Use, Use),
    /// Each name in the first list is in the second.
    Pairs(&'static str, &'static str),
    Once(&'static str),
    /// RKE2 sets this flag itself, up to these patch releases (the first without it).
    Rke2Sets(&'static str, Vec<Version>),
}

/// A flag and its value where it is not set.
#[derive(Clone, Copy)]
struct Defaulted {
    flag: &'static str,
    default: &'static str,
}

/// A flag that is set, or set to a word (`flag=word`), or to an amount of something (`flag~name`).
#[derive(Clone, Copy)]
struct Use(&'static str);

impl Rule {
    fn read(line: &'static str) -> Option<Self> {
        let mut words: Vec<&'static str> = line.split(' ').collect();
        let mut after = |word: &str| {
            let place = words.iter().position(|one| *one == word)?;
            let value = words.get(place + 1).copied();
            words.drain(place..(place + 2).min(words.len()));
            value
        };
        let (unless, with) = (after("unless").map(Use), after("with").map(Use));
        let from = after("from")
            .and_then(|minor| minor.parse().ok())
            .unwrap_or(0);
        let defaulted = |flag, default| Defaulted { flag, default };
        let demand = match words[..] {
            ["range", _, flag, low, high, ref rest @ ..] => Demand::Range {
                flag,
                low,
                high,
                with,
                takes_zero: rest.contains(&"zero"),
            },
            [
                kind @ ("below" | "upto"),
                _,
                flag,
                default,
                other,
                other_default,
                ref times @ ..,
            ] => Demand::Below {
                less: defaulted(flag, default),
                more: defaulted(other, other_default),
                times: times.first().map_or(Ok(1.0), |times| times.parse()).ok()?,
                or_equal: kind == "upto",
            },
            ["needs", _, this, that] => Demand::Needs(Use(this), that),
            ["not", _, this, that] => Demand::Not(Use(this), Use(that)),
            ["pairs", _, flag, other] => Demand::Pairs(flag, other),
            ["once", _, flag] => Demand::Once(flag),
            ["rke2", _, flag, ref until @ ..] => {
                let until: Result<Vec<Version>, _> = until.iter().map(|one| one.parse()).collect();
                Demand::Rke2Sets(flag, until.ok()?)
            }
            _ => return None,
        };
        let component = words[1];
        Some(Self {
            component,
            demand,
            unless,
            from,
        })
    }

    /// Every flag that it names.
    fn all_flags(&self) -> Vec<&'static str> {
        let mut flags = self.flags();
        match &self.demand {
            Demand::Needs(_, that) => flags.extend(that.split('|').map(|that| Use(that).flag())),
            Demand::Range { with, .. } => flags.extend(with.map(Use::flag)),
            _ => {}
        }
        flags.extend(self.unless.map(Use::flag));
        flags
    }

    fn flags(&self) -> Vec<&'static str> {
        match &self.demand {
            Demand::Range { flag, .. } | Demand::Once(flag) | Demand::Rke2Sets(flag, _) => {
                vec![flag]
            }
            Demand::Below { less, more, .. } => vec![less.flag, more.flag],
            Demand::Needs(this, _) => vec![this.flag()],
            Demand::Not(this, that) => vec![this.flag(), that.flag()],
            Demand::Pairs(flag, other) => vec![flag, other],
        }
    }
}

impl Use {
    fn flag(self) -> &'static str {
        self.0.split(['=', '~']).next().unwrap_or(self.0)
    }

    /// Where the arguments say so.
    fn place(self, arguments: &Given<'_>) -> Option<Location> {
        let items = arguments.all(self.flag());
        let last = items.last().filter(|item| !item.text.is_empty())?;
        if let Some((_, name)) = self.0.split_once('~') {
            let pairs = items.iter().flat_map(|item| item.text.split(','));
            let amount = pairs.rev().find_map(|pair| {
                let (key, amount) = pair.split_once('=')?;
                (key.trim() == name).then(|| amount.trim().to_owned())
            })?;
            let is_nothing = amount.trim_end_matches(char::is_alphabetic).parse::<f64>() == Ok(0.0);
            return (!is_nothing).then(|| last.at.clone());
        }
        let Some((_, word)) = self.0.split_once('=') else {
            return Some(last.at.clone());
        };
        let has = |item: &&ConfigItem| item.text.split(',').any(|one| one.trim() == word);
        items.iter().find(has).map(|item| item.at.clone())
    }

    /// As a person writes it.
    fn shown(self) -> String {
        match self.0.split_once('~') {
            Some((flag, name)) => format!("`{flag}={name}=…`"),
            None => format!("`{}`", self.0),
        }
    }
}

/// The arguments that a component gets from RKE2's configuration.
struct Given<'a> {
    config: &'a MergedConfig,
    list: &'a str,
}

impl Given<'_> {
    /// A flag of the kubelet counts after its files.
    fn all(&self, flag: &str) -> Vec<ConfigItem> {
        let items = self.config.flag(self.list, flag);
        match self.list {
            "kubelet-arg" if items.is_empty() => kubelet_fields::values_of(self.config, flag),
            _ => items,
        }
    }

    /// The one that counts, with its amount.
    fn amount(&self, flag: &str) -> Option<(ConfigItem, f64)> {
        let item = self.all(flag).pop()?;
        let amount = amount(&item.text)?;
        Some((item, amount))
    }
}

/// A number, or a time in seconds.
fn amount(text: &str) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "limits are small numbers")]
    let whole = whole(text).map(|number| number as f64);
    whole
        .or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()))
        .or_else(|| seconds(text))
}

/// Judges the arguments of one component; `versions` are those that may start.
pub(super) fn judge(
    component: &str,
    list: &str,
    config: &MergedConfig,
    versions: &[Version],
    refused: &BTreeSet<Location>,
    findings: &mut Findings,
) {
    let arguments = Given { config, list };
    let have = |flag: &str| {
        let is_field = component == "kubelet" && KNOWN.fields.contains_key(flag);
        let known = KNOWN.flags.get(&(component, flag));
        let is_flag =
            known.is_some_and(|known| versions.iter().all(|one| is_in(&known.spans, one.minor)));
        is_field || is_flag
    };
    let rules = || RULES.iter().filter(|rule| rule.component == component);
    let sets = |flag: &str| {
        rules().any(|rule| match &rule.demand {
            Demand::Rke2Sets(name, until) => {
                *name == flag && versions.iter().all(|one| is_before(*one, until))
            }
            _ => false,
        })
    };
    for rule in rules() {
        let holds = rule.flags().into_iter().all(have)
            && versions.iter().all(|one| one.minor.minor >= rule.from)
            && rule
                .unless
                .is_none_or(|unless| unless.place(&arguments).is_none());
        // A value that its type or form refuses has its finding.
        let is_refused = || {
            let mut items = rule
                .all_flags()
                .into_iter()
                .flat_map(|flag| arguments.all(flag));
            items.any(|item| refused.contains(&item.at))
        };
        // Its partner may be among the values that are not given.
        let may_be_elsewhere = config.lacks_kubelet_values
            && component == "kubelet"
            && matches!(
                rule.demand,
                Demand::Needs(..) | Demand::Pairs(..) | Demand::Below { .. }
            );
        if !holds || may_be_elsewhere || is_refused() {
            continue;
        }
        let Some((why, at)) = broken(&rule.demand, &arguments, &sets) else {
            continue;
        };
        let is_of_files = component == "kubelet"
            && rule
                .flags()
                .into_iter()
                .all(|flag| config.flag(list, flag).is_empty());
        let place = match is_of_files {
            true => "the kubelet's configuration".to_owned(),
            false => format!("`{list}`"),
        };
        let message = format!("{place}: {component} does not start: {why}");
        findings.push(Code::ComponentArgumentInvalid, message, at);
    }
}

/// Is this version before the first patch of its minor in the list? Minors after the list are not.
fn is_before(version: Version, until: &[Version]) -> bool {
    let mut same = until.iter().filter(|one| one.minor == version.minor);
    match same.next() {
        Some(first) => version.patch.is_some_and(|patch| Some(patch) < first.patch),
        None => until.iter().all(|one| version.minor < one.minor),
    }
}

/// Why the arguments do not meet a demand, and where they are; `sets` tells whether RKE2 sets a flag itself.
fn broken(
    demand: &Demand,
    arguments: &Given<'_>,
    sets: &dyn Fn(&str) -> bool,
) -> Option<(String, Vec<Location>)> {
    match demand {
        Demand::Rke2Sets(..) => None,
        Demand::Range { with, .. } if with.is_some_and(|with| with.place(arguments).is_none()) => {
            None
        }
        Demand::Range {
            flag,
            low,
            high,
            takes_zero,
            ..
        } => {
            let (item, value) = arguments.amount(flag)?;
            let is_low = amount(low).is_some_and(|low| value < low);
            let is_high = amount(high).is_some_and(|high| value > high);
            let limits = match (*low, *high) {
                (low, "-") => format!("must be at least {low}"),
                (low, high) => format!("must be from {low} to {high}"),
            };
            let is_default = *takes_zero && value == 0.0;
            ((is_low || is_high) && !is_default).then(|| {
                (
                    format!("`{flag}` is {} and {limits}", item.text),
                    vec![item.at],
                )
            })
        }
        Demand::Below {
            less,
            more,
            times,
            or_equal,
        } => {
            let (first, second) = (arguments.amount(less.flag), arguments.amount(more.flag));
            let of = |set: &Option<(ConfigItem, f64)>, row: &Defaulted| {
                let value = set.as_ref().map(|(_, value)| *value);
                value.or_else(|| amount(row.default))
            };
            let (low, high) = (of(&first, less)? * times, of(&second, more)?);
            let fits = low < high || (*or_equal && low <= high);
            let said = |set: &Option<(ConfigItem, f64)>, row: &Defaulted| match set {
                Some((item, _)) => format!("`{}` ({})", row.flag, item.text),
                None => format!("`{}` ({}, the default)", row.flag, row.default),
            };
            let value = said(&first, less);
            let value = match *times > 1.0 {
                true => format!("{times} times {value}"),
                false => value,
            };
            let than = match *or_equal {
                true => format!("{value} must not be more than"),
                false => format!("{value} must be less than"),
            };
            let why = format!("{than} {}", said(&second, more));
            let at: Vec<Location> = [first, second]
                .into_iter()
                .flatten()
                .map(|(item, _)| item.at)
                .collect();
            (!fits && !at.is_empty()).then_some((why, at))
        }
        Demand::Needs(this, that) => {
            let at = this.place(arguments)?;
            let others: Vec<Use> = that.split('|').map(Use).collect();
            if others.iter().any(|other| other.place(arguments).is_some()) {
                return None;
            }
            let others: Vec<String> = others.into_iter().map(Use::shown).collect();
            let why = format!("{} needs {}", this.shown(), others.join(" or "));
            Some((why, vec![at]))
        }
        Demand::Not(this, that) => {
            let first = this.place(arguments)?;
            let Some(second) = that.place(arguments) else {
                let (own, flag) = (that.shown(), this.shown());
                let why = format!("RKE2 sets {own} itself, which excludes {flag}: remove {flag}");
                return sets(that.flag()).then(|| (why, vec![first]));
            };
            let (flag, other) = (this.shown(), that.shown());
            let why = format!("{flag} and {other} exclude each other: remove one of them");
            Some((why, vec![first, second]))
        }
        Demand::Pairs(flag, other) => {
            let names = |flag: &str, between: [char; 2]| -> Vec<(String, Location)> {
                let items = arguments.all(flag).into_iter();
                let pairs = items.flat_map(|item| {
                    let names = item.text.split(',').map(str::to_owned).collect::<Vec<_>>();
                    names.into_iter().map(move |name| (name, item.at.clone()))
                });
                let named = pairs.filter_map(|(pair, at)| {
                    let (name, _) = pair.split_once(between)?;
                    Some((name.trim().to_owned(), at))
                });
                named.collect()
            };
            let known = names(other, ['=', '=']);
            let mut all = names(flag, ['<', '=']).into_iter();
            let (name, at) = all.find(|(name, _)| !known.iter().any(|(other, _)| other == name))?;
            let why = format!("`{name}` is in `{flag}` and needs a value in `{other}` too");
            Some((why, vec![at]))
        }
        Demand::Once(flag) => {
            let items = arguments.all(flag);
            let words = items.iter().flat_map(|item| item.text.split(','));
            let mut words: Vec<&str> = words.map(str::trim).collect();
            words.sort_unstable();
            let twice = words.windows(2).find(|pair| pair[0] == pair[1])?[0];
            let why = format!("`{twice}` is in `{flag}` twice: remove one of them");
            Some((why, items.into_iter().map(|item| item.at).collect()))
        }
    }
}

#[cfg(test)]
#[path = "argument_rules_tests.rs"]
mod tests;
