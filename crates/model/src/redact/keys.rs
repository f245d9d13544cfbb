//! Keys whose values are secrets.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyClass {
    Plain,
    /// A secret only if it looks random, unlike a name: `someKey`, `loginId`.
    IfRandom,
    /// A secret, or the name of one.
    Perhaps,
    Secret,
    /// Everything below it is a secret: users' passwords in special forms, scripts for other machines.
    Whole,
    /// Commands, whose author may have written a password into them.
    Commands,
}

/// The last parts of a secret's key, without case, dashes, dots and underscores.
const ENDINGS: &[&str] = &[
    // Passwords.
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passphrases",
    "passcode",
    "passcommand",
    "passwordhash",
    "pwd",
    "pswd",
    "bindpw",
    "rootpw",
    "userpw",
    "adminpw",
    "chappw",
    "bmcpw",
    "ipmipw",
    "ldappw",
    "dbpass",
    "adminpass",
    "rootpass",
    "userpass",
    "sshpass",
    "smtppass",
    "mysqlpass",
    "pgpass",
    "bindpass",
    "keypass",
    "storepass",
    // Tokens and the like.
    "token",
    "tokens",
    "bearer",
    "jwt",
    "otp",
    "otpauth",
    "totp",
    "authorization",
    "cookie",
    "cookies",
    "sessionid",
    "regcode",
    "registrationcode",
    "activationcode",
    "joincode",
    "invitecode",
    "mnemonic",
    "recoverycode",
    "recoverycodes",
    "communitystring",
    "rocommunity",
    "rwcommunity",
    // Keys.
    "accesskey",
    "accesskeyid",
    "accountkey",
    "activationkey",
    "agekey",
    "apikey",
    "appkey",
    "applicationkey",
    "authkey",
    "consumerkey",
    "cryptkey",
    "cryptokeyvalue",
    "enrollmentkey",
    "provisioningkey",
    "setupkey",
    "userkey",
    "decryptionkey",
    "deploykey",
    "deploymentkey",
    "encryptionkey",
    "enckey",
    "hmackey",
    "ikeypsk",
    "joinkey",
    "keydata",
    "licensekey",
    "licencekey",
    "lukskey",
    "masterkey",
    "peerkey",
    "presharedkey",
    "privatekey",
    "privkey",
    "productkey",
    "recoverykey",
    "routingkey",
    "registrationkey",
    "rootkey",
    "saskey",
    "sealkey",
    "secretaccesskey",
    "secretkey",
    "secretkeybase",
    "serialkey",
    "servicekey",
    "sessionkey",
    "sharedaccesskey",
    "sharedaccesssignature",
    "sharedkey",
    "signingkey",
    "sshprivatekey",
    "storagekey",
    "subscriptionkey",
    "tlskey",
    "tunnelkey",
    // Calico's chart: `certs.typha`.
    "typhakey",
    "sshkey",
    "unseal",
    "unsealkey",
    "unsealkeys",
    "wepkey",
    "wireguardkey",
    "writekey",
    "psk",
    // Secrets of various kinds.
    "clientsecret",
    "sharedsecret",
    "appsecret",
    "consumersecret",
    "chapsecret",
    "secretbase",
    "secretphrase",
    "signature",
    "connectionstring",
    "connstr",
    "connstring",
    "dsn",
    "dockerconfigjson",
    "dockercfg",
    "dockerauthconfig",
    "htpasswd",
    "netrc",
    "gitcredentials",
    "npmrc",
    "pypirc",
    "mycnf",
    "s3cfg",
    "vaultpass",
    "authpass",
    "peerpass",
    "bmcpass",
    "ipmipass",
    "chappass",
    "authtok",
    "idrsa",
    "ided25519",
    "idecdsa",
    "iddsa",
];

/// Whole last words of a secret's key. As mere suffixes they would match other words (compass, spin).
const LAST_WORDS: &[&str] = &["pass", "pw", "pin", "puk", "pat", "sig", "psw", "creds"];

/// Whole last words that may also stand for a name.
const PERHAPS: &[&str] = &[
    "secret",
    "secrets",
    "credential",
    "credentials",
    "auth",
    "kubeconfig",
    "keys",
];

/// Keys with a value of which no part is shown.
const WHOLE: &[&str] = &[
    "chpasswd",
    "userdata",
    "userdatabase64",
    "networkdata",
    "networkdatabase64",
    "vendordata",
    "vendordatabase64",
    "cloudconfig",
];

/// Lists of commands of cloud-init, yip, rancherd and Harvester.
const COMMANDS: &[&str] = &[
    "runcmd",
    "bootcmd",
    "preinstructions",
    "postinstructions",
    "earlycommands",
    "latecommands",
];

/// Words of a key whose value is a secret, even with a qualifier: `password_prod`, `TOKEN_2`.
const STRONG: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "apikey",
    "psk",
];

/// Words that do not change the meaning of a strong word before them.
const QUALIFIERS: &[&str] = &[
    "a",
    "admin",
    "agent",
    "alt",
    "b",
    "b64",
    "backup",
    "base64",
    "clear",
    "cleartext",
    // restic, borg: a command that prints it.
    "cmd",
    "command",
    "confirm",
    "confirmation",
    "current",
    "data",
    "db",
    "default",
    "dev",
    "encoded",
    "encrypted",
    "env",
    "fallback",
    "hash",
    "hashed",
    "hashes",
    "in",
    "initial",
    "json",
    "live",
    "main",
    "master",
    "new",
    "next",
    "old",
    "out",
    "plain",
    "plaintext",
    "prev",
    "previous",
    "primary",
    "prod",
    "production",
    "raw",
    "read",
    "root",
    "secondary",
    "server",
    "staging",
    "str",
    "string",
    "stringdata",
    "temp",
    "test",
    "text",
    "tmp",
    "user",
    "val",
    "value",
    "values",
    "write",
    "x",
];

/// Keys that end in `key` or `keys` and are public, or name something.
const PUBLIC: &[&str] = &[
    "authorized",
    "authorised",
    "public",
    "pub",
    "host",
    "topology",
    "label",
    "annotation",
    "object",
    "primary",
    "foreign",
    "sort",
    "partition",
    "cache",
    "map",
    "name",
    "registry",
    "file",
];

pub(super) fn class(key: &str) -> KeyClass {
    let mut words = words(key);
    // `PASSWORD_1`, `token2`: a number at the end does not matter.
    let is_number = |word: &String| {
        let digits = word.strip_prefix('v').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let whole = words.concat();
    if WHOLE.contains(&whole.as_str()) {
        return KeyClass::Whole;
    }
    while words.last().is_some_and(is_number) {
        words.pop();
    }
    let Some(last) = words.last() else {
        return KeyClass::Plain;
    };
    let plain = words.concat();
    let plain = plain.trim_end_matches(|one: char| one.is_ascii_digit());
    // `regcodes`: the plural is as secret as the singular.
    let one = plain.strip_suffix('s').unwrap_or(plain);
    let ends = |with: &[&str]| {
        with.iter()
            .any(|ending| plain.ends_with(ending) || one.ends_with(ending))
    };
    if COMMANDS.contains(&plain) || last.ends_with("commands") || last.ends_with("cmds") {
        KeyClass::Commands
    } else if ends(ENDINGS)
        || LAST_WORDS.contains(&last.trim_end_matches(|one: char| one.is_ascii_digit()))
        || is_qualified(&words)
    {
        KeyClass::Secret
    } else if plain.ends_with("keys") && is_public(&words, plain) {
        KeyClass::Plain
    } else if ends(PERHAPS) {
        KeyClass::Perhaps
    } else if (last.ends_with("key") || last == "access") && !is_public(&words, plain) {
        KeyClass::IfRandom
    } else {
        KeyClass::Plain
    }
}

/// Whether a strong word is followed only by words that do not change its meaning.
fn is_qualified(words: &[String]) -> bool {
    let rest = words
        .iter()
        .rposition(|word| STRONG.contains(&word.as_str()));
    rest.is_some_and(|at| {
        words[at + 1..].iter().all(|word| {
            QUALIFIERS.contains(&word.as_str()) || word.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

fn is_public(words: &[String], plain: &str) -> bool {
    words.iter().any(|word| PUBLIC.contains(&word.as_str()))
        || ["publickey", "authorizedkeys", "hostkeys", "publickeys"]
            .iter()
            .any(|ending| plain.ends_with(ending))
}

/// The words of a key in lower case: `adminPassword_1` is `admin`, `password`, `1`.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for (at, one) in key.char_indices() {
        let next = key[at + one.len_utf8()..].chars().next();
        let begins = one.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                // `APIToken`: the last capital belongs to the word after it.
                || (before.is_ascii_uppercase()
                    && next.is_some_and(|next| next.is_ascii_lowercase())));
        let parts = !one.is_ascii_alphanumeric();
        if (begins || parts) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (false, Some(word)) = (parts, words.last_mut()) {
            word.push(one.to_ascii_lowercase());
        }
        before = one;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Last words of a key below a secret's key that describes the secret and does not contain it.
const DESCRIBING: &[&str] = &[
    "annotations",
    "audience",
    "create",
    "enabled",
    "file",
    "group",
    "id",
    "kind",
    "labels",
    "length",
    "method",
    "mode",
    "name",
    "namespace",
    "optional",
    "path",
    "provider",
    "ref",
    "region",
    "required",
    "seconds",
    "type",
    "url",
    "user",
    "username",
    "version",
];

/// Whether a key below a secret's key describes the secret, such as `secretName` or `enabled`.
pub(super) fn describes(key: &str) -> bool {
    let words = words(key);
    let ends = |word: &String| DESCRIBING.contains(&word.as_str());
    words.last().is_some_and(ends) || ["apiVersion", "items", "key", "valueFrom"].contains(&key)
}

/// Whether the key stands for a webhook, or a list of them.
pub(super) fn names_hook(key: &str) -> bool {
    words(key).concat().contains("webhook")
}

/// Whether it is the address of a proxy, which may contain a name and a password.
pub(super) fn is_proxy(key: &str) -> bool {
    words(key).concat().ends_with("proxy")
}

/// Whether the key's value is a URL whose path may be a secret.
pub(super) fn is_hook(key: &str) -> bool {
    let words = words(key);
    let plain = words.concat();
    plain.contains("hook") && (plain.ends_with("url") || plain.ends_with("uri"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_how_it_ends_however_it_is_written() {
        for (key, expected) in [
            ("token", KeyClass::Secret),
            ("agent-token", KeyClass::Secret),
            ("AWS_SECRET_ACCESS_KEY", KeyClass::Secret),
            ("etcd-s3-secret-key", KeyClass::Secret),
            ("global.adminPassword", KeyClass::Secret),
            ("hashed_passwd", KeyClass::Secret),
            ("client-key-data", KeyClass::Secret),
            (".dockerconfigjson", KeyClass::Secret),
            ("DB_PASS", KeyClass::Secret),
            ("harvester.os.pass", KeyClass::Secret),
            ("bindpw", KeyClass::Secret),
            ("rootpw", KeyClass::Secret),
            ("pin", KeyClass::Secret),
            ("AccountKey", KeyClass::Secret),
            ("SharedAccessKey", KeyClass::Secret),
            ("PresharedKey", KeyClass::Secret),
            ("regcode", KeyClass::Secret),
            ("regcodes", KeyClass::Secret),
            ("SECRET_KEY_BASE", KeyClass::Secret),
            ("APP_KEY", KeyClass::Secret),
            ("PASSWORD_1", KeyClass::Secret),
            ("password2", KeyClass::Secret),
            ("tokenV2", KeyClass::Secret),
            ("DB_PASSWORD_PROD", KeyClass::Secret),
            ("passwordHash", KeyClass::Secret),
            ("APIToken", KeyClass::Secret),
            ("imagePullSecrets", KeyClass::Perhaps),
            ("auth", KeyClass::Perhaps),
            ("keys", KeyClass::Perhaps),
            ("someKey", KeyClass::IfRandom),
            ("userDataBase64", KeyClass::Whole),
            ("afterInstallChrootCommands", KeyClass::Commands),
            ("afterinstallchrootcommands", KeyClass::Commands),
            ("runcmd", KeyClass::Commands),
            ("bootcmd", KeyClass::Commands),
            ("commands", KeyClass::Commands),
            ("postInstructions", KeyClass::Commands),
            ("command", KeyClass::Plain),
            ("secretName", KeyClass::Plain),
            ("secretRef", KeyClass::Plain),
            ("secretNamespace", KeyClass::Plain),
            ("passwordKey", KeyClass::IfRandom),
            ("passwordFile", KeyClass::Plain),
            ("tokenExpirationSeconds", KeyClass::Plain),
            ("client-certificate-data", KeyClass::Plain),
            ("sshAuthorizedKeys", KeyClass::Plain),
            ("ssh_authorized_keys", KeyClass::Plain),
            ("sshauthorizedkeys", KeyClass::Plain),
            ("publicKey", KeyClass::Plain),
            ("topologyKey", KeyClass::Plain),
            ("pod-template-hash", KeyClass::Plain),
            ("bypass", KeyClass::Plain),
            ("compass", KeyClass::Plain),
            ("spin", KeyClass::Plain),
            ("digest", KeyClass::Plain),
            ("uid", KeyClass::Plain),
        ] {
            assert_eq!(class(key), expected, "{key}");
        }
    }

    #[test]
    fn a_key_is_cut_into_its_words_however_they_are_joined() {
        for (key, expected) in [
            ("APIToken", &["api", "token"][..]),
            ("adminPassword_1", &["admin", "password", "1"]),
            ("tls-private.key", &["tls", "private", "key"]),
            ("userID", &["user", "id"]),
            ("schlüsselWort", &["schl", "ssel", "wort"]),
        ] {
            let words: Vec<String> = words(key)
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            assert_eq!(words, expected, "{key}");
        }
    }
}
