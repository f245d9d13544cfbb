//! Under which keys secrets stand.

/// What a key says of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing.
    Plain,
    /// It may be a secret, or the name of one.
    Perhaps,
    /// It is a secret.
    Secret,
    /// Everything below it is: users' passwords in forms of their own, scripts for other machines.
    Whole,
}

/// How a secret's key ends, without case, dashes, dots and underscores.
const ENDINGS: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passwordhash",
    "pwd",
    "token",
    "tokens",
    "accesskey",
    "accesskeyid",
    "secretkey",
    "apikey",
    "privatekey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "licensekey",
    "keydata",
    "clientsecret",
    "sharedsecret",
    "authorization",
    "cookie",
    "psk",
    "dockerconfigjson",
    "dockercfg",
    "htpasswd",
];

/// The same where it may as well be a name.
const PERHAPS: &[&str] = &[
    "secret",
    "secrets",
    "credential",
    "credentials",
    "auth",
    "kubeconfig",
];

/// Keys below which nothing is shown.
const WHOLE: &[&str] = &[
    "chpasswd",
    "userdata",
    "userdatabase64",
    "networkdata",
    "networkdatabase64",
    "cloudconfig",
];

/// What a key says.
pub(super) fn class(key: &str) -> Class {
    let plain: String = key
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|one| one.to_ascii_lowercase())
        .collect();
    let ends = |with: &[&str]| with.iter().any(|ending| plain.ends_with(ending));
    if WHOLE.contains(&plain.as_str()) {
        Class::Whole
    } else if ends(ENDINGS) {
        Class::Secret
    } else if ends(PERHAPS) {
        Class::Perhaps
    } else {
        Class::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_how_it_ends_however_it_is_written() {
        for (key, expected) in [
            ("token", Class::Secret),
            ("agent-token", Class::Secret),
            ("AWS_SECRET_ACCESS_KEY", Class::Secret),
            ("etcd-s3-secret-key", Class::Secret),
            ("global.adminPassword", Class::Secret),
            ("hashed_passwd", Class::Secret),
            ("client-key-data", Class::Secret),
            (".dockerconfigjson", Class::Secret),
            ("imagePullSecrets", Class::Perhaps),
            ("auth", Class::Perhaps),
            ("userDataBase64", Class::Whole),
            ("secretName", Class::Plain),
            ("secretRef", Class::Plain),
            ("tokenExpirationSeconds", Class::Plain),
            ("client-certificate-data", Class::Plain),
            ("sshAuthorizedKeys", Class::Plain),
            ("ssh_authorized_keys", Class::Plain),
            ("publicKey", Class::Plain),
            ("pod-template-hash", Class::Plain),
        ] {
            assert_eq!(class(key), expected, "{key}");
        }
    }
}
