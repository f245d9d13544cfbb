//! The shapes.
//!
//! The beginning, the alphabet and the minimum length of each issuer's keys are taken from the rules of gitleaks
//! (v8.30.0, `config/gitleaks.toml`); the name of the rule is next to each. The patterns are our own. Lengths are lower
//! bounds: a truncated key is a secret too. Shapes that also match digests, UIDs or names of objects are not in the
//! table.

#[derive(Clone, Copy)]
pub(super) enum KeyAlphabet {
    /// `0-9a-f`, in either case.
    Hex,
    Alnum,
    Upper,
    Letters,
    /// Letters, digits, `_`, `-`.
    Word,
    /// Letters, digits, `_`, `-`, `.`, `=`.
    Dotted,
    /// Base64, either alphabet.
    Base64,
}

impl KeyAlphabet {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            KeyAlphabet::Hex => byte.is_ascii_hexdigit(),
            KeyAlphabet::Alnum => byte.is_ascii_alphanumeric(),
            KeyAlphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            KeyAlphabet::Letters => byte.is_ascii_alphabetic(),
            KeyAlphabet::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            KeyAlphabet::Dotted => KeyAlphabet::Word.has(byte) || matches!(byte, b'.' | b'='),
            KeyAlphabet::Base64 => {
                KeyAlphabet::Word.has(byte) || matches!(byte, b'+' | b'/' | b'=')
            }
        }
    }
}

/// A key with a distinctive beginning: the beginning, the alphabet of the rest, its minimum length, the rule.
pub(super) type Prefixed = (&'static str, KeyAlphabet, usize, &'static str);

pub(super) const PREFIXED: &[Prefixed] = &[
    ("A3-", KeyAlphabet::Word, 32, "1password-secret-key"),
    (
        "ops_eyJ",
        KeyAlphabet::Base64,
        40,
        "1password-service-account-token",
    ),
    ("p8e-", KeyAlphabet::Alnum, 32, "adobe-client-secret"),
    ("AGE-SECRET-KEY-1", KeyAlphabet::Upper, 20, "age-secret-key"),
    ("LTAI", KeyAlphabet::Alnum, 20, "alibaba-access-key-id"),
    ("sk-ant-", KeyAlphabet::Word, 40, "anthropic-api-key"),
    ("AKCp", KeyAlphabet::Alnum, 60, "artifactory-api-key"),
    (
        "cmVmd",
        KeyAlphabet::Alnum,
        55,
        "artifactory-reference-token",
    ),
    ("ATATT3", KeyAlphabet::Dotted, 60, "atlassian-api-token"),
    ("AKIA", KeyAlphabet::Upper, 16, "aws-access-token"),
    ("ASIA", KeyAlphabet::Upper, 16, "aws-access-token"),
    ("ABIA", KeyAlphabet::Upper, 16, "aws-access-token"),
    ("ACCA", KeyAlphabet::Upper, 16, "aws-access-token"),
    (
        "ABSK",
        KeyAlphabet::Base64,
        100,
        "aws-amazon-bedrock-api-key-long-lived",
    ),
    (
        "bedrock-api-key-",
        KeyAlphabet::Base64,
        20,
        "aws-amazon-bedrock-api-key-short-lived",
    ),
    ("CLOJARS_", KeyAlphabet::Alnum, 40, "clojars-api-token"),
    ("v1.0-", KeyAlphabet::Word, 100, "cloudflare-origin-ca-key"),
    ("dapi", KeyAlphabet::Hex, 32, "databricks-api-token"),
    (
        "dnkey-",
        KeyAlphabet::Dotted,
        60,
        "defined-networking-api-token",
    ),
    ("doo_v1_", KeyAlphabet::Hex, 40, "digitalocean-access-token"),
    ("dop_v1_", KeyAlphabet::Hex, 40, "digitalocean-pat"),
    (
        "dor_v1_",
        KeyAlphabet::Hex,
        40,
        "digitalocean-refresh-token",
    ),
    ("dp.pt.", KeyAlphabet::Alnum, 30, "doppler-api-token"),
    ("dp.st.", KeyAlphabet::Dotted, 30, "doppler-api-token"),
    (
        "dckr_pat_",
        KeyAlphabet::Word,
        20,
        "docker personal access token, not in gitleaks",
    ),
    (
        "dckr_oat_",
        KeyAlphabet::Word,
        20,
        "docker organisation access token, not in gitleaks",
    ),
    ("duffel_test_", KeyAlphabet::Dotted, 30, "duffel-api-token"),
    ("duffel_live_", KeyAlphabet::Dotted, 30, "duffel-api-token"),
    ("dt0c01.", KeyAlphabet::Dotted, 60, "dynatrace-api-token"),
    ("EZAK", KeyAlphabet::Alnum, 50, "easypost-api-token"),
    ("EZTK", KeyAlphabet::Alnum, 50, "easypost-test-api-token"),
    (
        "EAAM",
        KeyAlphabet::Alnum,
        100,
        "facebook-page-access-token",
    ),
    (
        "EAAC",
        KeyAlphabet::Alnum,
        100,
        "facebook-page-access-token",
    ),
    (
        "FLWSECK_TEST-",
        KeyAlphabet::Word,
        12,
        "flutterwave-secret-key",
    ),
    ("FLWSECK-", KeyAlphabet::Word, 12, "flutterwave-secret-key"),
    ("fo1_", KeyAlphabet::Word, 43, "flyio-access-token"),
    ("fm1a_", KeyAlphabet::Base64, 60, "flyio-access-token"),
    ("fm1r_", KeyAlphabet::Base64, 60, "flyio-access-token"),
    ("fm2_", KeyAlphabet::Base64, 60, "flyio-access-token"),
    ("fio-u-", KeyAlphabet::Dotted, 50, "frameio-api-token"),
    ("AIza", KeyAlphabet::Word, 30, "gcp-api-key"),
    (
        "GOCSPX-",
        KeyAlphabet::Word,
        20,
        "google client secret, not in gitleaks",
    ),
    ("ghu_", KeyAlphabet::Alnum, 20, "github-app-token"),
    ("ghs_", KeyAlphabet::Alnum, 20, "github-app-token"),
    (
        "github_pat_",
        KeyAlphabet::Word,
        20,
        "github-fine-grained-pat",
    ),
    ("gho_", KeyAlphabet::Alnum, 20, "github-oauth"),
    ("ghp_", KeyAlphabet::Alnum, 20, "github-pat"),
    ("ghr_", KeyAlphabet::Alnum, 20, "github-refresh-token"),
    ("glcbt-", KeyAlphabet::Word, 20, "gitlab-cicd-job-token"),
    ("gldt-", KeyAlphabet::Word, 16, "gitlab-deploy-token"),
    (
        "glffct-",
        KeyAlphabet::Word,
        16,
        "gitlab-feature-flag-client-token",
    ),
    ("glft-", KeyAlphabet::Word, 16, "gitlab-feed-token"),
    (
        "glimt-",
        KeyAlphabet::Word,
        16,
        "gitlab-incoming-mail-token",
    ),
    (
        "glagent-",
        KeyAlphabet::Word,
        30,
        "gitlab-kubernetes-agent-token",
    ),
    ("gloas-", KeyAlphabet::Word, 30, "gitlab-oauth-app-secret"),
    ("glpat-", KeyAlphabet::Dotted, 16, "gitlab-pat"),
    ("glptt-", KeyAlphabet::Hex, 30, "gitlab-ptt"),
    ("GR1348941", KeyAlphabet::Word, 16, "gitlab-rrt"),
    (
        "glrt-",
        KeyAlphabet::Dotted,
        16,
        "gitlab-runner-authentication-token",
    ),
    ("glsoat-", KeyAlphabet::Word, 16, "gitlab-scim-token"),
    ("glc_", KeyAlphabet::Base64, 30, "grafana-cloud-api-token"),
    (
        "glsa_",
        KeyAlphabet::Word,
        30,
        "grafana-service-account-token",
    ),
    ("HRKU-AA", KeyAlphabet::Word, 40, "heroku-api-key-v2"),
    ("hf_", KeyAlphabet::Letters, 30, "huggingface-access-token"),
    (
        "api_org_",
        KeyAlphabet::Letters,
        30,
        "huggingface-organization-api-token",
    ),
    ("ico-", KeyAlphabet::Alnum, 32, "infracost-api-token"),
    ("s-s4t2ud-", KeyAlphabet::Hex, 40, "intra42-client-secret"),
    ("s-s4t2af-", KeyAlphabet::Hex, 40, "intra42-client-secret"),
    ("eyJrIjoi", KeyAlphabet::Base64, 40, "grafana-api-key"),
    ("ZXlK", KeyAlphabet::Base64, 60, "jwt-base64"),
    ("lin_api_", KeyAlphabet::Alnum, 30, "linear-api-key"),
    ("pubkey-", KeyAlphabet::Hex, 32, "mailgun-pub-key"),
    ("key-", KeyAlphabet::Hex, 32, "mailgun-private-api-token"),
    ("NRAK-", KeyAlphabet::Upper, 20, "new-relic-user-api-key"),
    ("NRII-", KeyAlphabet::Word, 20, "new-relic-insert-key"),
    ("NRJS-", KeyAlphabet::Hex, 15, "new-relic-browser-api-token"),
    ("nfp_", KeyAlphabet::Alnum, 30, "netlify-access-token"),
    ("ntn_", KeyAlphabet::Alnum, 40, "notion-api-token"),
    ("npm_", KeyAlphabet::Alnum, 30, "npm-access-token"),
    ("API-", KeyAlphabet::Upper, 26, "octopus-deploy-api-key"),
    ("sk-proj-", KeyAlphabet::Word, 40, "openai-api-key"),
    ("sk-svcacct-", KeyAlphabet::Word, 40, "openai-api-key"),
    ("sk-admin-", KeyAlphabet::Word, 40, "openai-api-key"),
    ("pplx-", KeyAlphabet::Alnum, 40, "perplexity-api-key"),
    (
        "pscale_tkn_",
        KeyAlphabet::Dotted,
        30,
        "planetscale-api-token",
    ),
    (
        "pscale_oauth_",
        KeyAlphabet::Dotted,
        30,
        "planetscale-oauth-token",
    ),
    (
        "pscale_pw_",
        KeyAlphabet::Dotted,
        30,
        "planetscale-password",
    ),
    ("PMAK-", KeyAlphabet::Word, 40, "postman-api-token"),
    ("pnu_", KeyAlphabet::Alnum, 36, "prefect-api-token"),
    ("pul-", KeyAlphabet::Hex, 40, "pulumi-api-token"),
    ("pypi-AgEI", KeyAlphabet::Word, 40, "pypi-upload-token"),
    ("rdme_", KeyAlphabet::Alnum, 60, "readme-api-token"),
    ("rubygems_", KeyAlphabet::Hex, 40, "rubygems-api-token"),
    ("tk-us-", KeyAlphabet::Word, 48, "scalingo-api-token"),
    ("SG.", KeyAlphabet::Dotted, 60, "sendgrid-api-token"),
    ("xkeysib-", KeyAlphabet::Word, 60, "sendinblue-api-token"),
    ("sntrys_", KeyAlphabet::Base64, 40, "sentry-org-token"),
    ("sntryu_", KeyAlphabet::Hex, 40, "sentry-user-token"),
    (
        "sm_aat_",
        KeyAlphabet::Alnum,
        16,
        "settlemint-application-access-token",
    ),
    (
        "sm_pat_",
        KeyAlphabet::Alnum,
        16,
        "settlemint-personal-access-token",
    ),
    (
        "sm_sat_",
        KeyAlphabet::Alnum,
        16,
        "settlemint-service-access-token",
    ),
    ("shippo_live_", KeyAlphabet::Hex, 40, "shippo-api-token"),
    ("shippo_test_", KeyAlphabet::Hex, 40, "shippo-api-token"),
    ("shpat_", KeyAlphabet::Hex, 32, "shopify-access-token"),
    (
        "shpca_",
        KeyAlphabet::Hex,
        32,
        "shopify-custom-access-token",
    ),
    (
        "shppa_",
        KeyAlphabet::Hex,
        32,
        "shopify-private-app-access-token",
    ),
    ("shpss_", KeyAlphabet::Hex, 32, "shopify-shared-secret"),
    ("xapp-", KeyAlphabet::Word, 10, "slack-app-token"),
    (
        "xoxa-",
        KeyAlphabet::Word,
        8,
        "slack-legacy-workspace-token",
    ),
    ("xoxb-", KeyAlphabet::Word, 8, "slack-bot-token"),
    ("xoxe-", KeyAlphabet::Word, 8, "slack-config-refresh-token"),
    (
        "xoxe.",
        KeyAlphabet::Dotted,
        20,
        "slack-config-access-token",
    ),
    ("xoxo-", KeyAlphabet::Word, 8, "slack-legacy-token"),
    ("xoxp-", KeyAlphabet::Word, 8, "slack-user-token"),
    (
        "xoxr-",
        KeyAlphabet::Word,
        8,
        "slack-legacy-workspace-token",
    ),
    ("xoxs-", KeyAlphabet::Word, 8, "slack-legacy-token"),
    ("sgp_", KeyAlphabet::Word, 40, "sourcegraph-access-token"),
    ("sq0atp-", KeyAlphabet::Word, 20, "square-access-token"),
    ("sq0csp-", KeyAlphabet::Word, 20, "square-access-token"),
    ("sk_live_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    ("sk_test_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    ("sk_prod_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    ("rk_live_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    ("rk_test_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    ("rk_prod_", KeyAlphabet::Alnum, 10, "stripe-access-token"),
    (
        "whsec_",
        KeyAlphabet::Base64,
        20,
        "stripe webhook secret, not in gitleaks",
    ),
    (
        "tskey-",
        KeyAlphabet::Word,
        16,
        "tailscale key, not in gitleaks",
    ),
    ("hvs.", KeyAlphabet::Word, 20, "vault-service-token"),
    ("hvb.", KeyAlphabet::Word, 20, "vault-batch-token"),
    (
        "hvr.",
        KeyAlphabet::Word,
        20,
        "vault recovery token, not in gitleaks",
    ),
    ("AQVN", KeyAlphabet::Word, 35, "yandex-api-key"),
    (
        "YCAJE",
        KeyAlphabet::Word,
        20,
        "yandex static key, not in gitleaks",
    ),
    ("t1.9euel", KeyAlphabet::Dotted, 40, "yandex-access-token"),
    ("sha256~", KeyAlphabet::Word, 40, "openshift-user-token"),
];

/// More complex shapes: hints, which are texts that every match contains (lower case), and the pattern. Group 1, if
/// there is one, stays, and so does group 2, which follows the secret. A pattern without a hint is always tried.
pub(super) const PATTERNS: &[(&[&str], &str)] = &[
    // A JSON web token (a service account's, an OIDC one); gitleaks `jwt`.
    (
        &["eyj"],
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    // RKE2's tokens: K10<hash of the CA>::<user>:<password>, or without the user.
    (&["k10"], r"\bK10[0-9a-f]{64}(?:::[^\s\x22',;\\]+)?"),
    // Rancher's: <name>:<54 letters and digits>.
    (&[], r"\b[a-z0-9][a-z0-9-]{2,62}:[a-z0-9]{54}\b"),
    // Bootstrap tokens.
    (&[], r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),
    // Hashed passwords, as crypt(3) and htpasswd have them.
    (
        &[],
        r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|scrypt|argon2(?:id?|d)|pbkdf2[a-z0-9-]*)\$[^\s\x22':;\\]+",
    ),
    // Authorization headers. The scheme stays.
    (
        &["bearer", "basic"],
        r"(?i)(\b(?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]{6,}",
    ),
    // Signatures in a URL's query, under names that are not secret elsewhere.
    (
        &[],
        r"(?i)([?&](?:key|sig|signature|code|auth|access|sv|hash|x-amz-signature|x-amz-credential|x-goog-signature)=)[^\s&#\x22'<>]+",
    ),
    // The path of a URL to which anyone may post; gitleaks `slack-webhook-url`, `microsoft-teams-webhook`, and similar
    // ones.
    (
        &[
            "hooks.",
            "webhook",
            "api.telegram",
            "pagerduty",
            "ifttt",
            "healthchecks",
            "hc-ping",
        ],
        r"(?i)\b((?:hooks\.slack\.com/(?:services|workflows|triggers)|hooks\.slack-gov\.com/services|[a-z0-9.-]+\.webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook|(?:[a-z]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks|hooks\.zapier\.com/hooks|hook\.[a-z0-9.]*make\.com|hooks\.[a-z0-9.-]+|api\.telegram\.org|maker\.ifttt\.com/trigger|events\.pagerduty\.com/integration|hc-ping\.com)/)[^\s\x22'<>`]+",
    ),
    // Chat rooms with the key in the path: gitleaks' telegram rule, without the URL.
    (&[":a"], r"\b[0-9]{5,16}:A[A-Za-z0-9_-]{34}"),
    // A data source's name as Go writes it: user:password@tcp(host:port)/database.
    (
        &["@tcp(", "@unix(", "@udp(", "@tcp6(", "@cloudsql("],
        r"([A-Za-z0-9_.-]+:)\S+(@(?:tcp6?|unix|udp|cloudsql)\()",
    ),
    // ~/.netrc, also over several lines.
    (
        &["machine", "login"],
        r"(?i)(\b(?:machine\s+\S+|default)\s+(?:login\s+\S+\s+)?(?:account\s+\S+\s+)?password\s+)\S+",
    ),
    (&["login"], r"(\blogin\s+\S+\s+password\s+)\S+"),
    // ~/.pgpass: host:port:database:user:password. Addresses also have colons, but no dot between them.
    (
        &[],
        r"(?m)((?:^|[\s\x22'=])(?:\*|localhost|[A-Za-z0-9_-]*[G-Zg-z.][A-Za-z0-9._-]*):(?:[0-9]{3,5}|\*):[^:\s/]+:[^:\s/]+:)[^\s\x22']+",
    ),
    // Azure's client secrets; gitleaks `azure-ad-client-secret`.
    (&["q~"], r"\b[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    // HashiCorp Terraform, MaxMind, OpenAI (the old form), Airtable, Harness, Authress, ClickHouse, Twilio, Mailchimp,
    // Mailgun's signing keys, Lob, Mapbox, legacy Vault: gitleaks' rules of those names.
    (
        &[".atlasv1."],
        r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{40,}",
    ),
    (&["_mmk"], r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),
    (
        &["t3blbkfj"],
        r"\bsk-[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}",
    ),
    (&["pat"], r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    (
        &["pat.", "sat."],
        r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b",
    ),
    (
        &[".acc_", ".acc-"],
        r"\b(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}",
    ),
    (&["4b1d"], r"\b4b1d[A-Za-z0-9]{38}\b"),
    (&["sk"], r"\bSK[0-9a-f]{32}\b"),
    (&["-us"], r"\b[a-f0-9]{32}-us[0-9]{1,2}\b"),
    (&[], r"\b(?:live|test)_(?:pub_)?[a-f0-9]{31,35}\b"),
    (&["live_"], r"\blive_[A-Za-z0-9_=-]{40}\b"),
    (
        &["pk.", "sk."],
        r"\b[ps]k\.[A-Za-z0-9]{60}\.[A-Za-z0-9_-]{20,22}\b",
    ),
    (&["_gitlab_session="], r"(_gitlab_session=)[0-9a-z]{20,}"),
    // Facebook's: <application>|<token>; gitleaks `facebook-access-token`.
    (&[], r"\b[0-9]{15,16}\|[0-9A-Za-z_-]{27,40}"),
    // Arguments of commands; gitleaks `curl-auth-user` has the first.
    (
        &["curl", "wget", "http"],
        r"((?:\bcurl\b|\bwget\b|\bhttps?\b)[^\n|]*?\s(?:-u|--user|--proxy-user|-U|-a|--auth)[ =]?[\x22']?[^\s:\x22']*:)[^\s\x22']+",
    ),
    (
        &["sshpass"],
        r"(\bsshpass\s+-p\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["ipmitool"],
        r"(\bipmitool\b[^\n|;]*?\s-[PKE]\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["suseconnect", "transactional-update"],
        r"((?i:\bSUSEConnect\b|\bregister\b)[^\n|;]*?\s-r\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["mysql", "mariadb"],
        r"(\b(?:mysql|mysqladmin|mysqldump|mariadb|mariadb-dump)\b[^\n|;]*?\s-p)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s\x22']+)",
    ),
    (
        &["redis-cli"],
        r"(\bredis-cli\b[^\n|;]*?\s-a\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["ldap"],
        r"(\bldap(?:search|modify|add|delete|passwd|whoami|compare)\b[^\n|;]*?\s-[ws]\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &[
            "useradd", "usermod", "docker", "podman", "nerdctl", "helm", "skopeo", "htpasswd",
        ],
        r"(\b(?:useradd|usermod|(?:docker|podman|nerdctl|helm registry|skopeo) login)\b[^\n|;]*?\s-p\s*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["htpasswd"],
        r"(\bhtpasswd\s+-[a-zA-Z]*b[a-zA-Z]*\s+(?:\S+\s+){1,2})(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
    (
        &["--creds", "creds="],
        r"(--(?:src-|dest-)?creds[ =][\x22']?[^\s:\x22']*:)[^\s\x22']+",
    ),
    (
        &["openssl"],
        r"(\bopenssl\s+passwd\b(?:\s+-\S+)*\s+)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s-]\S*)",
    ),
    (&["pass:"], r"(\bpass(?:in|out)?\s+pass:)\S+"),
    (
        &["chpasswd"],
        r"([\x22']?[A-Za-z_][A-Za-z0-9_.-]{0,31}:)[^\s'\x22|]+([\x22']?\s*\|\s*(?:sudo\s+)?chpasswd)",
    ),
    (
        &["iscsiadm", "nmcli", "wpa_"],
        r"((?i:\bnode\.session\.auth\.password(?:_in)?\b\s+-v\s+|\b(?:wifi-sec|802-11-wireless-security|802-1x|wpa_passphrase\s+\S+)\.?\S*\s+|\bnmcli\b[^\n|;]*?\spassword\s+))(?:'[^'\n]*'|\x22[^\x22\n]*\x22|\S+)",
    ),
];
