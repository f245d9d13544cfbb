//! Keys with special types of values.

use std::net::SocketAddr;

use schemars::json_schema;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::reasons::{Code, REASONS};
use windrow_model::suggest::nearest;
use windrow_plan::rules::Platform;

use super::units::expected;
use super::value::{AUTO, NONE, SpecialKind, WordKind, path_or, show_or, text_like};
use super::{CopyTo, OnChange, SiteNames};

pub(super) const PLATFORM: WordKind = WordKind {
    words: &["auto", "harvester", "rke2"],
    get: |settings| match settings.platform {
        None => "auto",
        Some(Platform::Harvester) => "harvester",
        Some(Platform::Rke2) => "rke2",
    },
    set: |settings, word| {
        settings.platform = match word {
            "harvester" => Some(Platform::Harvester),
            "rke2" => Some(Platform::Rke2),
            _ => None,
        };
    },
};

pub(super) const ON_CHANGE: WordKind = WordKind {
    words: &["wait", "try"],
    get: |settings| match settings.gates.on_change {
        OnChange::Wait => "wait",
        OnChange::Try => "try",
    },
    set: |settings, word| {
        settings.gates.on_change = match word {
            "try" => OnChange::Try,
            _ => OnChange::Wait,
        };
    },
};

pub(super) const SITE_NAMES: WordKind = WordKind {
    words: &["keep", "hash", "drop"],
    get: |settings| match settings.flight.names {
        SiteNames::Keep => "keep",
        SiteNames::Hash => "hash",
        SiteNames::Drop => "drop",
    },
    set: |settings, word| {
        settings.flight.names = match word {
            "hash" => SiteNames::Hash,
            "drop" => SiteNames::Drop,
            _ => SiteNames::Keep,
        };
    },
};

pub(super) const LISTEN: SpecialKind = SpecialKind {
    set: |settings, node| {
        let listen: SocketAddr = node
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| expected("an address with a port like 0.0.0.0:9346", node))?;
        if listen.port() < 1024 {
            return Err(format!(
                "port {} is one that Windrow has no right to: write one from 1024 on",
                listen.port()
            ));
        }
        settings.status_server.listen = listen;
        Ok(())
    },
    show: |settings| settings.status_server.listen.to_string(),
    schema: |generator| generator.subschema_for::<Option<String>>(),
};

pub(super) const TEXTFILE: SpecialKind = SpecialKind {
    set: |settings, node| {
        let path = path_or(NONE, node)?;
        if let Some(path) = path.as_ref().filter(|path| !path.ends_with(".prom")) {
            return Err(format!(
                "node_exporter reads files that end in .prom: write {path}.prom"
            ));
        }
        settings.metrics.textfile = path;
        Ok(())
    },
    show: |settings| show_or(NONE, &settings.metrics.textfile),
    schema: |_| text_like(r"^(/.*\.prom|none)$"),
};

pub(super) const CURED: SpecialKind = SpecialKind {
    set: |settings, node| {
        let NodeValue::Sequence(items) = &node.value else {
            return Err(expected("a list of codes like [addon-stuck]", node));
        };
        settings.repair.auto = items.iter().map(curable).collect::<Result<_, _>>()?;
        settings.repair.auto.sort_unstable();
        settings.repair.auto.dedup();
        Ok(())
    },
    show: |settings| {
        let codes = settings.repair.auto.iter().map(|code| code.as_str());
        format!("[{}]", codes.collect::<Vec<_>>().join(", "))
    },
    schema: |_| {
        let codes: Vec<&str> = Code::curable().map(Code::as_str).collect();
        json_schema!({"type": ["array", "null"], "items": {"enum": codes}})
    },
};

fn curable(node: &Node) -> Result<Code, String> {
    let known = || Code::curable().map(Code::as_str);
    let list = || known().collect::<Vec<_>>().join(", ");
    let text = node.as_str().ok_or_else(|| expected("a code", node))?;
    if let Some(code) = Code::curable().find(|code| code.as_str() == text) {
        return Ok(code);
    }
    if REASONS.iter().any(|reason| reason.id == text) {
        return Err(format!(
            "Windrow has no fix for {text}: write one of {}",
            list()
        ));
    }
    let hint = match nearest(text, known()) {
        Some(code) => format!("did you mean `{code}`?"),
        None => format!("write one of {}", list()),
    };
    Err(format!("there is no code {text}: {hint}"))
}

pub(super) const COPY_TO: SpecialKind = SpecialKind {
    set: |settings, node| {
        settings.flight.copy_to = match node.as_str() {
            Some(AUTO) => CopyTo::Auto,
            Some(NONE) => CopyTo::None,
            Some(path) if path.starts_with('/') && !path.split('/').any(|part| part == "..") => {
                CopyTo::Directory(path.to_owned())
            }
            _ => {
                return Err(expected(
                    "auto, none or the absolute path of a directory",
                    node,
                ));
            }
        };
        Ok(())
    },
    show: |settings| match &settings.flight.copy_to {
        CopyTo::Auto => AUTO.to_owned(),
        CopyTo::None => NONE.to_owned(),
        CopyTo::Directory(path) => path.clone(),
    },
    schema: |_| text_like("^(/.*|auto|none)$"),
};
