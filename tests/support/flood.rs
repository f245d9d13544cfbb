//! A user who floods a service on the bus: many connections, half of them never reading a reply. It is a process of its
//! own, as another user; the test's own program plays it.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

/// Tells the program that it is the flooding process; the value is the bus's socket.
const SOCKET: &str = "WINDROW_TEST_FLOOD";
/// Calls of one connection without a reply: the bus takes 128.
const OPEN: usize = 120;
/// In words of our own: the bus has limits too.
const REFUSAL: &[u8] = b"too many calls of Status and Why";

/// The user's process.
pub(crate) struct Flood {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Flood {
    /// Starts it: `test` is the name of the test that calls `play`.
    pub(crate) fn start(test: &str, socket: &Path, uid: u32, place: &Path) -> Self {
        let program = place.join("flood");
        // By another process: a file that this one writes cannot be executed while a child of another test has it open.
        // And elsewhere: that user may not read the build's directory.
        let copied = Command::new("cp")
            .arg(std::env::current_exe().unwrap())
            .arg(&program)
            .status();
        assert!(copied.unwrap().success());
        let mut command = Command::new(&program);
        command
            .args(["--exact", test, "--nocapture"])
            .env(SOCKET, socket)
            .current_dir("/")
            .stdout(Stdio::piped());
        if nix::unistd::geteuid().is_root() {
            command.uid(uid).gid(uid);
        }
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits until it has been refused. It keeps flooding.
    pub(crate) fn is_refused(&mut self) {
        let mut line = String::new();
        while !line.contains("refused") {
            line.clear();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended before it was refused");
        }
    }
}

/// Floods, in the process that `Flood` has started; in every other one it does nothing.
pub(crate) fn play(connections: usize, destination: &str, path: &str, method: &str) {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let call = [destination, path, method].map(str::to_owned);
    let (refused, one) = mpsc::channel();
    let mut open = Vec::new();
    for number in 0..connections {
        let mut stream = connect(Path::new(&socket)).unwrap();
        for _ in 0..OPEN {
            ask(&mut stream, &call).unwrap();
        }
        match number % 2 {
            0 => open.push(stream),
            _ => {
                let (call, refused) = (call.clone(), refused.clone());
                std::thread::spawn(move || go_on(stream, &call, &refused));
            }
        }
    }
    one.recv().unwrap();
    println!("refused");
    // Its starter ends it.
    loop {
        std::thread::park();
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let uid = nix::unistd::geteuid().to_string();
    let id: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    write!(stream, "\0AUTH EXTERNAL {id}\r\n")?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    assert!(line.starts_with(b"OK "), "{line:?}");
    write!(stream, "BEGIN\r\n")?;
    let bus = "org.freedesktop.DBus";
    let hello = [bus, "/org/freedesktop/DBus", "Hello"].map(str::to_owned);
    ask(&mut stream, &hello)?;
    Ok(stream)
}

fn ask(stream: &mut UnixStream, call: &[String; 3]) -> io::Result<()> {
    let [destination, path, method] = call;
    let message = zbus::Message::method_call(path.as_str(), method.as_str())
        .destination(destination.as_str())
        .interface(destination.as_str())
        .build(&())
        .unwrap();
    stream.write_all(message.data())
}

/// Asks again for each reply that it reads.
fn go_on(mut stream: UnixStream, call: &[String; 3], refused: &mpsc::Sender<()>) {
    while let Ok(reply) = message(&mut stream) {
        if reply.windows(REFUSAL.len()).any(|part| part == REFUSAL) {
            let _ = refused.send(());
        }
        if ask(&mut stream, call).is_err() {
            return;
        }
    }
}

/// The next message: a head of 16 bytes with the lengths of the rest, the fields, and the body.
fn message(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    assert_eq!(head[0], b'l', "little endian");
    let number = |at: usize| {
        let bytes = head[at..at + 4].try_into().unwrap();
        usize::try_from(u32::from_le_bytes(bytes)).unwrap()
    };
    let mut rest = vec![0; number(12).next_multiple_of(8) + number(4)];
    stream.read_exact(&mut rest)?;
    Ok(rest)
}
