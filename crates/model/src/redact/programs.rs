//! The ways in which programs receive a secret, on their command line and in their files, as data.
//!
//! Each pattern has hints: texts that every match contains, in small letters. Group 1 stays, and so does group 2, which
//! follows the secret.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::REDACTED;
use super::pattern::OnSecret;
use super::random::is_no_name;

/// Patterns, in the form of those of `shapes`.
pub(super) const PATTERNS: &[(&[&str], &str)] = &[
    // net-snmp: users and communities, in snmpd.conf and as arguments.
    (
        &["createuser"],
        r"(?i)(\bcreateUser\s+(?:-e\s+\S+\s+)?\S+\s+(?:MD5|SHA[0-9-]*)\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["createuser"],
        r"(?i)(\bcreateUser\s+(?:-e\s+\S+\s+)?\S+\s+(?:MD5|SHA[0-9-]*)\s+\S+\s+(?:DES|AES[0-9-]*)\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (&["community"], r"(?i)(\br[ow]community6?\s+)[^\s=:]\S*"),
    (&["com2sec"], r"(?i)(\bcom2sec6?\s+\S+\s+\S+\s+)\S+"),
    (
        &["snmp"],
        r"(\bsnmp(?:get|walk|set|bulk|table|trap|inform|status|test|df)[a-z]*\b[^\n|;]*?\s-c\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["snmp"],
        r"(\bsnmp(?:get|walk|set|bulk|table|trap|inform|status|test|df)[a-z]*\b[^\n|;]*?\s-A\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["snmp"],
        r"(\bsnmp(?:get|walk|set|bulk|table|trap|inform|status|test|df)[a-z]*\b[^\n|;]*?\s-X\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    // ipsec.secrets.
    (
        &["psk", "xauth", "eap", "ntlm"],
        r"(:\s*(?:PSK|XAUTH|EAP|NTLM)\s+)(?:\x22[^\x22\n]*\x22|0[xs]\S+)",
    ),
    // Baseboard management controllers.
    (
        &["ipmitool"],
        r"(\buser\s+set\s+password\s+\d+\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &[
            "racadm", "hauler", "oras", "regctl", "buildah", "crane", "mongo",
        ],
        r"(\b(?:racadm|hauler|oras|regctl|buildah|crane|mongo[a-z]*)\b[^\n|;]*?\s-p\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    // Clients of databases, registries and shares.
    (
        &["etcdctl", "ctr", "nerdctl"],
        r"(\b(?:etcdctl|ctr|nerdctl)\b[^\n|;]*?\s(?:--user|-u)[ =][\x22']?[^\s:\x22']*:)[^\s\x22']+",
    ),
    (
        &["sqlcmd", "bcp", "plink", "pscp"],
        r"(\b(?:sqlcmd|bcp|plink|pscp)\b[^\n|;]*?\s-(?:P|pw)\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["openssl"],
        r"(\bopenssl\b[^\n|;]*?\s-(?:k|K|hmac)\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["alias set", "config host add"],
        r"(\b(?:alias\s+set|config\s+host\s+add)\s+\S+\s+https?://\S+\s+\S+\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (&["redacted]:"], r"(\[redacted\]:)[A-Za-z0-9+/]{40}\b"),
    (
        &["rabbitmqctl"],
        r"(\brabbitmqctl\s+(?:add_user|change_password|authenticate_user)\s+\S+\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["smb", "rpcclient"],
        r"(\s-U\s*[\x22']?[^\s%\x22']+%)[^\s\x22']+",
    ),
    (&["lftp"], r"(\blftp\b[^\n|;]*?\s-u\s+[^\s,]+,)[^\s\x22']+"),
    (
        &["operator unseal", "vault login", "bao login"],
        r"(\b(?:vault|bao)\s+(?:operator\s+unseal|login)\s+(?:-\S+\s+)*)[^\s-]\S*",
    ),
    (
        &["kv put", "kv patch", "vault write", "bao write"],
        r"(\b(?:vault|bao)\s+(?:kv\s+(?:put|patch)|write)\s+(?:-\S+\s+)*\S+\s+)[^\n|;]+",
    ),
    (
        &["--from-literal"],
        r"(--from-literal[ =][\x22']?[^\s=\x22']+=)[^\s\x22']+",
    ),
    // JDBC's URL for Oracle has no `//` before the login.
    (
        &["jdbc:oracle"],
        r"(?i)(\bjdbc:oracle:\w+:[^\s/@:\x22']+/)[^\s@\x22']+(@)",
    ),
    // Archivers: Info-ZIP, p7zip, rar.
    (
        &["zip"],
        r"(\b(?:un)?zip\b[^\n|;]*?\s-P\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    (
        &["7z", "rar"],
        r"(\b(?:7z[ar]?|(?:un)?rar)\b[^\n|;]*?\s-h?p)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    // `rclone config create NAME TYPE KEY VALUE`, with any value.
    (
        &["rclone"],
        r"(\brclone\b[^\n|;]*?\s(?:secret_access_key|client_secret|pass(?:word)?2?|token|key|sas_url)[ =])(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s'\x22]+)",
    ),
    // HAProxy: `stats auth`, and users of a `userlist`.
    (&["stats auth"], r"(\bstats\s+auth\s+[^\s:]+:)\S+"),
    (
        &["insecure-password"],
        r"(\buser\s+\S+\s+(?:insecure-)?password\s+)\S+",
    ),
    // BIRD and named: a statement with a text.
    (
        &["password \""],
        r"(?i)(\bpassword\s+)\x22[^\x22\n]+\x22(\s*;)",
    ),
    // Terraform's variables.
    (
        &["variable \""],
        r"(?i)(\bvariable\s+\x22[^\x22\n]*(?:pass|passwd|pw|secret|token|key|credential)[^\x22\n]*\x22\s*\{[^}]*?\bdefault\s*=\s*)\x22[^\x22\n]+\x22",
    ),
    // The address from which an installer, cloud-init or Ignition gets its configuration, on the kernel's command line:
    // with the text after the `?` anyone can get it.
    (
        &[
            "ds=nocloud",
            "config-url=",
            "config_url=",
            "config.url=",
            "inst.ks=",
            "autoyast=",
            "netsetup_url=",
        ],
        r"(?i)(\b(?:ds=nocloud|[a-z0-9_.-]*config[-_.]url=|inst\.ks=|autoyast=)[^\s?]*\?)[^\s\x22']+",
    ),
    // Passwords on standard input.
    (
        &["chpasswd"],
        r"(\bchpasswd\b(?:\s+-\S+)*\s*<<<\s*[\x22']?[^\s:\x22']+:)[^\s\x22']+",
    ),
    (
        &["chpasswd"],
        r"(\bchpasswd\b[^\n<]*<<-?\s*[\x22']?\w+[\x22']?\n)(?:[^\n:]+:[^\n]*\n?)+",
    ),
    (
        &["passwd", "cryptsetup", "kinit"],
        r"(\b(?:passwd|cryptsetup|kinit)\b[^\n<|;]*<<<\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &[
            "passwd",
            "cryptsetup",
            "cryptenroll",
            "kinit",
            "realm",
            "adcli",
            "sudo",
            "password-stdin",
        ],
        r"(\b(?:echo|printf)\s+)[^\n|;]+?(\s*\|\s*(?:sudo\s+)?(?:passwd|smbpasswd|mkpasswd|htpasswd|cryptsetup|systemd-cryptenroll|kinit|realm|adcli|sudo\s+-S|[a-z]+\s[^\n|;]*--password-stdin)\b)",
    ),
    (
        &["mkpasswd"],
        r"(\bmkpasswd\b(?:\s+-(?:m|S|R)\s+\S+|\s+-\S+)*\s+)[^\s-]\S*",
    ),
    // Subscriptions and tunnels.
    (&["ngrok"], r"(\bngrok\b[^\n|;]*authtoken\s+)\S+"),
    (
        &["attach"],
        r"(\b(?:pro|ua)\s+attach\s+(?:--\S+\s+)*)[A-Za-z0-9]{16,}",
    ),
    (
        &["cloudflared"],
        r"(\bcloudflared\s+service\s+install\s+)\S+",
    ),
    // This address is enough to register a machine or a cluster.
    (
        &["/v3/import/", "/elemental/registration/"],
        r"(/(?:v3/import|elemental/registration)/)[A-Za-z0-9]{20,}",
    ),
    // XML: AutoYaST, Windows' answer files, libvirt.
    (
        &["</"],
        r"(?i)(<[a-z0-9_.:-]*(?:password|passwd|passphrase|secret|token|reg_?code|api_?key|bind_?pw|private_?key)(?:\s[^<>]*)?>)[^<>\s][^<>]*",
    ),
    (&["<value>"], r"(?i)(<[a-z]*Password>\s*<Value>)[^<>]+"),
    // Routers and what speaks to them: FRR, keepalived, kube-vip's peers, chrony.
    (
        &["neighbor", "username", "enable"],
        r"(?im)((?:\bneighbor\s+\S+|\busername\s+\S+|^\s*enable)\s+(?:password|secret)\s+(?:\d\s+)?)\S+",
    ),
    (
        &["message-digest-key", "authentication-key"],
        r"(?i)(\b(?:message-digest-key|authentication-key)\s+\d+\s+(?:md5\s+)?)\S+",
    ),
    (
        &["auth_pass", "rootpw", "bindpw", "requirepass", "masterauth"],
        r"(?i)(\b(?:auth_pass|rootpw|bindpw|requirepass|masterauth)\s+)[^\s=:]\S*",
    ),
    (
        &[":true", ":false"],
        r"(\b\d{1,3}(?:\.\d{1,3}){3}:\d{1,10}:)[^\s:,]+(:(?:true|false))",
    ),
    (
        &["hex:", "ascii:"],
        r"(?i)(\b(?:MD5|SHA1|SHA256|SHA384|SHA512|AES128|AES256)\s+(?:HEX|ASCII):)\S+",
    ),
    // Storage: iSCSI roots on the kernel's command line, NVMe.
    (&["iscsi:"], r"(\biscsi:[^\s:@/]+:)[^\s@]+(@)"),
    (
        &["dhhc-1:", "nvmetlskey-1:"],
        r"(\b(?:DHHC-1|NVMeTLSkey-1):\d{2}:)[A-Za-z0-9+/=]+",
    ),
    // Keys and hashes of other programs.
    (
        &["private-lines:"],
        r"(Private-Lines: \d+\s+)(?:[A-Za-z0-9+/=]{16,}\s*)+",
    ),
    (
        &[r#""kty""#],
        r"(\x22(?:d|p|q|dp|dq|qi|k)\x22\s*:\s*\x22)[A-Za-z0-9_-]{16,}",
    ),
    (
        &["grub.pbkdf2"],
        r"(?i)(\bgrub\.pbkdf2\.sha512\.\d+\.)[0-9a-f.]{32,}",
    ),
    // The first part may already be known, and removed.
    (
        &["scram-sha-", "redacted]:"],
        r"((?:\bSCRAM-SHA-\d+\$\d+|\[redacted\]):)[A-Za-z0-9+/=]{8,}\$[A-Za-z0-9+/=:]+",
    ),
    (&["hmac-"], r"(?i)(\bsecret\s+\x22)[A-Za-z0-9+/=]{16,}"),
    (
        &[
            "{ssha", "{sha", "{smd5}", "{md5}", "{crypt}", "{pbkdf2", "{argon2",
        ],
        r"(?i)(\{(?:SSHA|SHA|SMD5|MD5|CRYPT|PBKDF2|ARGON2)[A-Z0-9-]*\})[^\s\x22']{8,}",
    ),
    // SQL, PowerShell.
    (
        &["identified"],
        r"(?i)(\bIDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?)(?:'[^'\n]*'|\x22[^\x22\n]*\x22)",
    ),
    (&["password '"], r"(?i)(\bPASSWORD\s+)'[^'\n]+'"),
    (
        &["securestring"],
        r"(?i)(\bConvertTo-SecureString\s+(?:-String\s+)?)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s-]\S*)",
    ),
];

/// `aws_secret_access_key abc`: a key and its value with only blanks between them. In prose any word may follow such a
/// key, so the value has to look random, unlike a name.
static SPACED: LazyLock<Regex> = LazyLock::new(|| {
    super::pattern::regex(
        r"(?i)(\b[a-z0-9_.-]*(?:password|passwd|passphrase|pass|pw|secret|token|psk|_key|access_key_id|accesskey|apikey|authtok)[ \t]+[\x22']?)([A-Za-z0-9+/_=.!@#%^*~-]{8,})",
    )
});

pub(super) fn spaced(text: &str, found: OnSecret<'_>) -> String {
    SPACED
        .replace_all(text, |captures: &Captures<'_>| {
            let value = &captures[2];
            if !is_no_word(value) {
                return captures[0].to_owned();
            }
            found(value, false);
            format!("{}{REDACTED}", &captures[1])
        })
        .into_owned()
}

/// Not a path, and either both cases and digits, or many digits in a row.
pub(super) fn is_no_word(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    let mixed =
        has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    !value.starts_with('/') && (mixed || is_no_name(value))
}
