//! A system bus of our own: a real dbus-daemon under the rules of a real one, with Windrow's policy
//! file where the tests run as root. `dbus-send` is the client.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::unistd::geteuid;
use zbus::OwnedVariant;

const NAME: &str = "dev.windrow.Agent1";
const PATH: &str = "/dev/windrow/Agent1";
/// The user `nobody`, who has no rights.
pub(crate) const NOBODY: u32 = 65534;
/// The user `bin`, who has no rights either.
const ANOTHER: u32 = 2;

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The user who runs the tests.
    Root,
    /// A user without rights; where the tests do not run as root, the user who runs them.
    Nobody,
    /// Another one (`bin`).
    Another,
}

/// The bus. It ends with its last owner.
#[derive(Clone)]
pub(crate) struct Bus(Arc<Parts>);

struct Parts {
    directory: tempfile::TempDir,
    daemon: Mutex<Option<Child>>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Ok(Some(mut child)) = self.daemon.lock().map(|mut daemon| daemon.take()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Bus {
    /// A bus that does not run yet; `None`, and a line that says so, where there is no dbus-daemon.
    pub(crate) fn prepare() -> Option<Self> {
        for program in ["dbus-daemon", "dbus-send"] {
            let found = Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if found.is_err() {
                eprintln!("skipped: there is no {program}");
                return None;
            }
        }
        let directory = tempfile::tempdir().unwrap();
        // Other users have to reach the socket.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let bus = Self(Arc::new(Parts {
            directory,
            daemon: Mutex::new(None),
        }));
        let policy = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/config/dbus/dev.windrow.Agent1.conf"
        );
        // Only root may take the name under that policy.
        let rules = match geteuid().is_root() {
            true => format!("<include>{policy}</include>"),
            false => {
                "<policy context=\"default\"><allow own=\"*\"/><allow send_type=\"method_call\"/>\
                 </policy>"
                    .to_owned()
            }
        };
        // The rules of dbus' own system.conf; messages may be as long as dbus-broker lets them be.
        let config = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">
<busconfig>
  <type>system</type>
  <listen>{}</listen>
  <auth>EXTERNAL</auth>
  <policy context=\"default\">
    <allow user=\"*\"/>
    <deny own=\"*\"/>
    <deny send_type=\"method_call\"/>
    <allow send_type=\"signal\"/>
    <allow send_requested_reply=\"true\" send_type=\"method_return\"/>
    <allow send_requested_reply=\"true\" send_type=\"error\"/>
    <allow receive_type=\"method_call\"/>
    <allow receive_type=\"method_return\"/>
    <allow receive_type=\"error\"/>
    <allow receive_type=\"signal\"/>
    <allow send_destination=\"org.freedesktop.DBus\" send_interface=\"org.freedesktop.DBus\"/>
  </policy>
  <policy user=\"root\">
    <allow own=\"org.freedesktop.PolicyKit1\"/>
    <allow send_destination=\"org.freedesktop.PolicyKit1\"/>
  </policy>
  {rules}
  <limit name=\"max_message_size\">134217728</limit>
  <limit name=\"max_incoming_bytes\">268435456</limit>
</busconfig>
",
            bus.address()
        );
        fs::write(bus.0.directory.path().join("bus.conf"), config).unwrap();
        Some(bus)
    }

    /// A bus that runs.
    pub(crate) fn start() -> Option<Self> {
        let bus = Self::prepare()?;
        bus.run();
        Some(bus)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.directory.path().join("socket")
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    /// Starts it; it listens when this returns.
    pub(crate) fn run(&self) {
        let _ = fs::remove_file(self.socket());
        let mut child = Command::new("dbus-daemon")
            .arg(format!(
                "--config-file={}/bus.conf",
                self.0.directory.path().display()
            ))
            .args(["--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        // Its address is printed once it listens.
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        assert!(line.contains("unix:"), "the bus did not start");
        *self.0.daemon.lock().unwrap() = Some(child);
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        let mut child = self.0.daemon.lock().unwrap().take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Calls a method and returns the strings and numbers of the reply; or the error.
    pub(crate) fn call(
        &self,
        who: Who,
        method: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        self.send(who, NAME, PATH, method, arguments)
    }

    /// Calls a method of another object, as the user who runs the tests.
    pub(crate) fn at(&self, path: &str, method: &str) -> Result<String, String> {
        self.send(Who::Root, NAME, path, method, &[])
    }

    fn send(
        &self,
        who: Who,
        destination: &str,
        path: &str,
        method: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        let mut command = Command::new("dbus-send");
        command
            .arg(format!("--bus={}", self.address()))
            .arg(format!("--dest={destination}"))
            .args([
                "--print-reply=literal",
                "--reply-timeout=600000",
                path,
                method,
            ])
            .args(arguments)
            .current_dir("/");
        let uid = match who {
            Who::Root => None,
            Who::Nobody => Some(NOBODY),
            Who::Another => Some(ANOTHER),
        };
        if let Some(uid) = uid.filter(|_| geteuid().is_root()) {
            command.uid(uid).gid(uid);
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// A method of the agent; lists of strings are returned without their brackets.
    pub(crate) fn method(
        &self,
        who: Who,
        method: &str,
        arguments: &[&str],
    ) -> Result<String, String> {
        let said = self.call(who, &format!("{NAME}.{method}"), arguments)?;
        let inner = said
            .strip_prefix("array [")
            .and_then(|said| said.strip_suffix(']'));
        Ok(inner.unwrap_or(&said).trim().to_owned())
    }

    /// A property, in its written form.
    pub(crate) fn property(&self, who: Who, name: &str) -> Result<String, String> {
        let arguments = [format!("string:{NAME}"), format!("string:{name}")];
        let arguments = arguments.each_ref().map(String::as_str);
        let said = self.call(who, "org.freedesktop.DBus.Properties.Get", &arguments)?;
        let value = said.trim_start_matches("variant").trim_start();
        let number = ["uint32", "uint64"]
            .iter()
            .find_map(|kind| value.strip_prefix(kind));
        Ok(number.unwrap_or(value).trim().to_owned())
    }

    /// Is the agent on the bus?
    pub(crate) fn is_owned(&self) -> bool {
        let bus = "org.freedesktop.DBus";
        let name = format!("string:{NAME}");
        let said = self.send(
            Who::Root,
            bus,
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.NameHasOwner",
            &[&name],
        );
        said.is_ok_and(|said| said.contains("true"))
    }

    /// Plays PolicyKit, which at first allows nothing.
    pub(crate) async fn policy_kit(&self) -> PolicyKit {
        let state = Arc::new(Mutex::new(State::default()));
        let connection = zbus::connection::Builder::address(self.address().as_str())
            .serve_at(
                "/org/freedesktop/PolicyKit1/Authority",
                Authority(state.clone()),
            )
            .name("org.freedesktop.PolicyKit1")
            .build()
            .await
            .unwrap();
        PolicyKit {
            state,
            _connection: connection,
        }
    }
}

/// Subject's kind, its name on the bus, the action.
type Asked = (String, String, String);

#[derive(Default)]
struct State {
    allowed: BTreeSet<String>,
    asked: Vec<Asked>,
}

/// PolicyKit, played.
pub(crate) struct PolicyKit {
    state: Arc<Mutex<State>>,
    _connection: zbus::Connection,
}

impl PolicyKit {
    pub(crate) fn allow(&self, action: &str) {
        self.state.lock().unwrap().allowed.insert(action.to_owned());
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }
}

struct Authority(Arc<Mutex<State>>);

#[zbus::interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Authority {
    fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedVariant>),
        action: String,
        _details: HashMap<String, String>,
        _flags: u32,
        _cancellation: String,
    ) -> (bool, bool, HashMap<String, String>) {
        let mut state = self.0.lock().unwrap();
        let name = subject
            .1
            .get("name")
            .and_then(|name| <&str>::try_from(name).ok());
        let asked = (
            subject.0,
            name.unwrap_or_default().to_owned(),
            action.clone(),
        );
        state.asked.push(asked);
        (state.allowed.contains(&action), false, HashMap::new())
    }
}
