//! Parses the text of a `--feature-gates` flag like the components do.
//!
//! Every pair is judged, not only the first invalid one: the components stop at the first.

use windrow_model::text::cut;

/// The maximum length of a shown name, in characters. No gate's name is as long.
const LONGEST: usize = 120;

/// One `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The text before a `:`; kube-apiserver accepts `kube` from 1.31 on.
    pub prefix: Option<String>,
    /// The name as written.
    pub name: String,
    pub value: bool,
}

/// Parses the text of one flag: the valid pairs, and the error of each invalid one. An empty item is ignored. An item
/// of blanks is ignored by the components that split the flag by prefix first (`blanks`: the control plane since 1.31),
/// and is a pair without `=` for the others.
pub fn pairs(text: &str, blanks: bool) -> Vec<Result<Pair, String>> {
    text.split(',')
        .filter(|item| !(item.is_empty() || blanks && item.trim().is_empty()))
        .map(pair)
        .collect()
}

fn pair(item: &str) -> Result<Pair, String> {
    let whole = item.trim();
    if whole.is_empty() {
        return Err("there is a blank where a gate should be: remove the extra comma".to_owned());
    }
    let shown = cut(whole, LONGEST);
    if whole.contains(['"', '\'']) {
        return Err(format!(
            "`{shown}` has quotes inside the value, which the component would take literally: remove them"
        ));
    }
    if whole.contains(';') {
        return Err(format!(
            "`{shown}` has a `;`: separate gates with commas only"
        ));
    }
    let Some((name, value)) = item.split_once('=') else {
        let advice = match whole.rsplit_once(['-', ':', ' ']) {
            Some((name, value)) if boolean(value.trim()).is_some() => {
                let name = cut(name.trim_end_matches([' ', ':', '-']), LONGEST);
                format!("write {name}={}", value.trim())
            }
            _ => format!("write {shown}=true or {shown}=false"),
        };
        return Err(format!("`{shown}` has no value: {advice}"));
    };
    let (prefix, name) = match name.split_once(':') {
        Some((prefix, name)) => (Some(prefix.trim().to_owned()), name.trim()),
        None => (None, name.trim()),
    };
    let value = value.trim();
    if name.is_empty() {
        return Err(format!("`{shown}` has no name before the `=`"));
    }
    match boolean(value) {
        Some(value) => Ok(Pair {
            prefix,
            name: name.to_owned(),
            value,
        }),
        None if value.contains(char::is_whitespace) => Err(format!(
            "`{shown}` has a blank inside the value: separate gates with commas, without quotes"
        )),
        None => {
            let name = cut(name, LONGEST);
            Err(format!(
                "the gate `{name}` has a value that is not a boolean: write {name}=true or {name}=false"
            ))
        }
    }
}

/// The booleans that Go's `strconv.ParseBool` accepts.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> Vec<(String, bool)> {
        pairs(text, false)
            .into_iter()
            .map(|pair| pair.map(|pair| (pair.name, pair.value)).unwrap())
            .collect()
    }

    #[test]
    fn what_the_components_take_is_taken() {
        assert_eq!(good(""), []);
        let both = [("A".to_owned(), true), ("B".to_owned(), false)];
        for text in [
            "A=true,B=false",
            " A = true , B=false ",
            "A=1,,B=0,",
            "A=T,B=F",
            "A=TRUE,B=FALSE",
            "A=True,B=False",
            "A=t,B=f",
        ] {
            assert_eq!(good(text), both, "{text}");
        }
        let prefixed = pairs("kube:A=true", true).remove(0).unwrap();
        assert_eq!(prefixed.prefix.as_deref(), Some("kube"));
        assert_eq!(prefixed.name, "A");
    }

    #[test]
    fn what_is_long_is_shown_in_part() {
        let long = "V".repeat(5_000);
        for text in [
            &long,
            &format!("{long}=yes"),
            &format!("{long}-true"),
            &format!("X={long}"),
        ] {
            let problem = pairs(text, false).remove(0).unwrap_err();
            assert!(problem.chars().count() < 600, "{problem}");
        }
    }

    #[test]
    fn what_the_components_refuse_is_refused_with_what_to_write() {
        for (text, advice) in [
            ("X-true", "write X=true"),
            ("X: true", "write X=true"),
            ("X", "write X=true or X=false"),
            ("X-yes", "write X-yes=true or X-yes=false"),
            ("X=yes", "write X=true or X=false"),
            ("X=on", "not a boolean"),
            ("X=tRUE", "not a boolean"),
            ("X=", "not a boolean"),
            ("=true", "no name"),
            ("X=\"true\"", "quotes"),
            ("\"X=true\"", "quotes"),
            ("X=true;Y=false", "`;`"),
            ("X=true Y=false", "commas"),
            (" ", "remove the extra comma"),
        ] {
            let problems: Vec<String> = pairs(text, false)
                .into_iter()
                .filter_map(Result::err)
                .collect();
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert!(problems[0].contains(advice), "{text}: {problems:?}");
        }
    }

    #[test]
    fn an_item_of_blanks_is_nothing_only_where_the_flag_is_split_by_prefix() {
        assert_eq!(pairs("A=true, ", true).len(), 1);
        assert!(pairs("A=true, ", false)[1].is_err());
    }

    #[test]
    fn every_bad_pair_is_named_and_the_good_ones_are_kept() {
        let read = pairs("A=true,B-false,C=maybe,D=false", false);
        assert_eq!(read.iter().filter(|pair| pair.is_ok()).count(), 2);
        assert_eq!(read.iter().filter(|pair| pair.is_err()).count(), 2);
    }
}
