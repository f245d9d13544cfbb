//! The server's own certificate, for the time before RKE2 has made one: self-signed, made once and kept with its key in
//! one private file, so that its fingerprint stays the same.

use std::path::Path;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::files::{Durability, make_private, replace};

/// A certificate with its key, in PEM, and why it could not be kept.
pub(super) struct MadeCertificate {
    pub(super) pem: String,
    pub(super) unsaved: Option<String>,
}

/// Makes a certificate for these names and addresses, and keeps it in this place, or returns with it why it cannot be
/// kept.
///
/// # Errors
///
/// When the machine has no random numbers to give.
pub(super) fn make(
    place: Result<&Path, String>,
    names: &[String],
) -> Result<MadeCertificate, String> {
    let pem = pem(names).map_err(|error| format!("no certificate can be made: {error}"))?;
    let keep = |path: &Path| {
        path.parent().map_or(Ok(()), make_private)?;
        replace(path, pem.as_bytes(), 0o600, Durability::Durable)
    };
    let unsaved = match place {
        Err(why) => Some(why),
        Ok(path) => keep(path)
            .err()
            .map(|error| format!("{}: {error}", path.display())),
    };
    Ok(MadeCertificate { unsaved, pem })
}

fn pem(names: &[String]) -> Result<String, rcgen::Error> {
    // A name that no certificate can hold is left out: readers know this one by its fingerprint.
    let fit = |name: &&String| CertificateParams::new(vec![(*name).clone()]).is_ok();
    let names: Vec<String> = names.iter().filter(fit).cloned().collect();
    let mut about = DistinguishedName::new();
    let first = names.first().map_or("windrow", String::as_str);
    about.push(DnType::CommonName, first);
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = about;
    // Before the first look at a time server a clock may show anything; no end is well-defined (RFC 5280, 4.1.2.5).
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(certificate.pem() + &key.serialize_pem())
}
