//! How the fields of a setting fit each other.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::field;
use super::pem::{is_certificates, is_private_key};
use super::texts::is_number_that;

type Fields = Map<String, Value>;

fn text<'v>(fields: &'v Fields, name: &str) -> &'v str {
    field(fields, name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_set(fields: &Fields, name: &str) -> bool {
    !text(fields, name).is_empty()
}

pub(super) fn time_servers(fields: &Fields) -> Option<String> {
    let servers = field(fields, "ntpServers")?.as_array()?;
    let is_repeated = |(index, server): (usize, &Value)| servers[..index].contains(server);
    let is_repeated = servers.iter().enumerate().any(is_repeated);
    is_repeated.then(|| "write each server of `ntpServers` only once".to_owned())
}

/// validateSSLCertificatesHelper. Whether the certificate has a name, and belongs to the key, is not checked.
pub(super) fn certificates(fields: &Fields) -> Option<String> {
    let names = ["ca", "publicCertificate", "privateKey"];
    if !names.iter().any(|name| is_set(fields, name)) {
        return None;
    }
    let [ca, public, private] = names.map(|name| text(fields, name));
    let why = if !ca.is_empty() && !is_certificates(ca) {
        "write `ca` as certificates in PEM"
    } else if !is_certificates(public) {
        "write `publicCertificate` as a certificate in PEM"
    } else if !is_private_key(private) {
        "write `privateKey` as one private key in PEM"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// validateBackupTargetFields. A target of type s3 without both keys may be one that Harvester has read and written again.
pub(super) fn backup_target(fields: &Fields) -> Option<String> {
    let set = |name: &str| is_set(fields, name);
    let keys = (set("accessKeyId"), set("secretAccessKey"));
    let bucket = (set("bucketName"), set("bucketRegion"));
    let why = match text(fields, "type") {
        "" => {
            let mut others = BACKUP_FIELDS.iter();
            let is_default = others.all(|name| field(fields, name).is_none_or(is_zero));
            (!is_default).then_some("write `type` as s3 or nfs")
        }
        "s3" if keys == (false, false) => None,
        "s3" if keys != (true, true) => {
            Some("a target of the type s3 needs `accessKeyId` and `secretAccessKey`")
        }
        "s3" if bucket != (true, true) => {
            Some("a target of the type s3 needs `bucketName` and `bucketRegion`")
        }
        "s3" => None,
        "nfs" if !set("endpoint") => Some("a target of the type nfs needs `endpoint`"),
        "nfs" if keys != (false, false) => {
            Some("remove `accessKeyId` and `secretAccessKey`; a target of the type nfs has none")
        }
        "nfs" if bucket != (false, false) => {
            Some("remove `bucketName` and `bucketRegion`; a target of the type nfs has none")
        }
        "nfs" => None,
        _ => Some("write `type` as s3 or nfs"),
    };
    why.map(str::to_owned)
}

const BACKUP_FIELDS: [&str; 8] = [
    "endpoint",
    "accessKeyId",
    "secretAccessKey",
    "bucketName",
    "bucketRegion",
    "cert",
    "virtualHostedStyle",
    "refreshIntervalInSeconds",
];

/// Go's zero of a text, a number or a boolean.
fn is_zero(value: &Value) -> bool {
    value.as_str() == Some("") || value.as_i64() == Some(0) || value.as_bool() == Some(false)
}

/// The networks and addresses in `noProxy` of the setting `http-proxy`; `None` if it sets no proxy.
pub fn proxy_exceptions(fields: &Map<String, Value>) -> Option<Vec<&str>> {
    if !is_set(fields, "httpProxy") && !is_set(fields, "httpsProxy") {
        return None;
    }
    let parts = text(fields, "noProxy").split(',').map(str::trim);
    let networks = parts.filter(|part| part.contains('/') || part.parse::<IpAddr>().is_ok());
    Some(networks.collect())
}

/// validateNoProxy, for any node.
pub(super) fn proxy(fields: &Fields) -> Option<String> {
    let is_covered = !proxy_exceptions(fields)?.is_empty();
    (!is_covered).then(|| "write the network of all nodes into `noProxy`".to_owned())
}

/// DecodeLHIMResources, which reads these names only as written, and Longhorn's limits of guaranteed-instance-manager-cpu.
pub(super) fn instance_manager(fields: &Fields) -> Option<String> {
    let engines = match fields.get("cpu") {
        Some(Value::Null) => return None,
        Some(Value::Object(engines)) if engines.is_empty() => return None,
        Some(Value::Object(engines)) => engines,
        _ => return Some("write `cpu` as a JSON object".to_owned()),
    };
    let is_share = |name: &str| {
        let share = engines.get(name).and_then(Value::as_str);
        share.is_some_and(|share| is_number_that(share, |share| (0.0..=40.0).contains(&share)))
    };
    let is_right = is_share("v1") && is_share("v2");
    (!is_right)
        .then(|| "write `cpu.v1` and `cpu.v2` as texts with a number from 0 to 40".to_owned())
}
