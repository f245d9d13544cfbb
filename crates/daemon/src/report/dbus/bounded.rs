//! A connection to the bus that skips long messages.
//!
//! The library reads a whole message before it can be refused, and a bus lets every user send 32 MB (dbus-daemon) or
//! 128 MB (dbus-broker). So the head of a message is read first. The body of a long one is dropped as it arrives, and
//! the library only gets the head, which is enough to answer a call (`is_cut`).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::Builder;
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::message::Message;
use zbus::{Address, Connection};

/// Longer messages, in bytes, are cut: paths and reasons are short.
pub(super) const LONGEST: usize = 16 << 10;
/// The part of a message that gives the length of the rest: of the body at byte 4, of the fields at byte 12.
const HEAD: usize = 16;

/// Whether its body was dropped. Then it is empty, although the head describes one.
pub(super) fn is_cut(message: &Message) -> bool {
    let header = message.header();
    header.primary().body_len() == 0 && !header.signature().to_string().is_empty()
}

pub(super) async fn connect(address: Address) -> zbus::Result<Connection> {
    let builder = match address.transport() {
        Transport::Unix(unix) => match unix.path() {
            UnixSocket::File(path) => {
                Builder::socket(BoundedSocket(UnixStream::connect(path).await?))
            }
            _ => Builder::address(address),
        },
        // No system has its bus there.
        _ => Builder::address(address),
    };
    builder.build().await
}

struct BoundedSocket(UnixStream);

impl Socket for BoundedSocket {
    type ReadHalf = BoundedReader<OwnedReadHalf>;
    type WriteHalf = BoundedWriter;

    fn split(self) -> Split<Self::ReadHalf, Self::WriteHalf> {
        let (read, write) = self.0.into_split();
        Split::new(BoundedReader::new(read), BoundedWriter(write))
    }
}

/// Reads messages one after the other; before them, the lines of the handshake.
#[derive(Debug)]
struct BoundedReader<R> {
    from: R,
    held: Vec<u8>,
    /// How many bytes of the message still have to be passed on.
    rest: usize,
    /// A line of the handshake is not complete yet.
    in_line: bool,
}

impl<R: tokio::io::AsyncRead + Unpin> BoundedReader<R> {
    fn new(from: R) -> Self {
        Self {
            from,
            held: Vec::new(),
            rest: 0,
            in_line: false,
        }
    }

    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.held.is_empty() && self.rest == 0 {
            let mut first = [0];
            if self.from.read(&mut first).await? == 0 {
                return Ok(0);
            }
            // A message begins with its byte order, a line of the handshake with another letter.
            match first[0] {
                b'l' | b'B' if !self.in_line => self.message(first[0]).await?,
                byte => {
                    self.in_line = byte != b'\n';
                    self.held.push(byte);
                }
            }
        }
        if self.held.is_empty() {
            let room = buffer.len().min(self.rest);
            let read = self.from.read(&mut buffer[..room]).await?;
            self.rest -= read;
            return Ok(read);
        }
        let taken = buffer.len().min(self.held.len());
        buffer[..taken].copy_from_slice(&self.held[..taken]);
        self.held.drain(..taken);
        Ok(taken)
    }

    /// Begins a message. A long one is passed on without its body; one with a long head is skipped.
    async fn message(&mut self, order: u8) -> io::Result<()> {
        let mut head = [order; HEAD];
        self.from.read_exact(&mut head[1..]).await?;
        let number = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            let number = match order {
                b'l' => u32::from_le_bytes(bytes),
                _ => u32::from_be_bytes(bytes),
            };
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        let body = number(4);
        let fields = number(12).checked_next_multiple_of(8);
        let fields = fields.ok_or(io::ErrorKind::InvalidData)?;
        if HEAD.saturating_add(fields).saturating_add(body) <= LONGEST {
            self.held.extend(head);
            self.rest = fields + body;
            return Ok(());
        }
        if HEAD + fields > LONGEST {
            self.skip(fields).await?;
            return self.skip(body).await;
        }
        head[4..8].fill(0);
        let mut held = head.to_vec();
        held.resize(HEAD + fields, 0);
        self.from.read_exact(&mut held[HEAD..]).await?;
        self.skip(body).await?;
        self.held = held;
        Ok(())
    }

    async fn skip(&mut self, mut bytes: usize) -> io::Result<()> {
        let mut thrown_away = [0; 4096];
        while bytes > 0 {
            let room = thrown_away.len().min(bytes);
            match self.from.read(&mut thrown_away[..room]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => bytes -= read,
            }
        }
        Ok(())
    }
}

pub async fn passed_on(bytes: &[u8], piece: usize) -> io::Result<Vec<u8>> {
    let mut reader = BoundedReader::new(bytes);
    let (mut all, mut buffer) = (Vec::new(), vec![0; piece.max(1)]);
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(all),
            read => all.extend(&buffer[..read]),
        }
    }
}

#[async_trait]
impl<R> ReadHalf for BoundedReader<R>
where
    R: tokio::io::AsyncRead + Unpin + std::fmt::Debug + Send + Sync + 'static,
{
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        // No file descriptor is accepted: the bus never learns that we would take any.
        Ok((self.read(buffer).await?, Vec::new()))
    }
}

#[derive(Debug)]
struct BoundedWriter(OwnedWriteHalf);

#[async_trait]
impl WriteHalf for BoundedWriter {
    async fn sendmsg(&mut self, buffer: &[u8], _fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.write(buffer).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(length: usize, path: &str) -> Vec<u8> {
        let call = Message::method_call(path, "Why")
            .destination("dev.windrow.Agent1")
            .build(&"x".repeat(length));
        call.unwrap().data().to_vec()
    }

    #[tokio::test]
    async fn a_long_message_comes_without_its_body_and_the_others_as_they_are() {
        let handshake = b"OK 0123456789abcdef\r\n".to_vec();
        let short = call(100, "/a");
        let long = call(1 << 20, "/b");
        let longest_head = call(1, &format!("/{}", "c".repeat(LONGEST)));
        let sent = [&handshake, &short, &long, &longest_head, &short].map(Vec::as_slice);
        let fields = u32::from_le_bytes(long[12..16].try_into().unwrap());
        let head = HEAD + usize::try_from(fields).unwrap().next_multiple_of(8);
        let mut cut = long[..head].to_vec();
        cut[4..8].fill(0);
        let expected = [&handshake, &short, &cut, &short].map(Vec::as_slice);
        for piece in [1, 7, 16, 4096] {
            let through = passed_on(&sent.concat(), piece).await.unwrap();
            assert_eq!(through, expected.concat());
        }
    }
}
