//! Reads flights back: lines, the flights that they form, and damage.

use serde::Deserialize;
use windrow_decide::flight::{FlightHead, FlightLine, VERSION};

#[derive(Debug, Clone, PartialEq)]
pub struct Flights {
    /// The oldest first. A segment begins with each process, and whenever the file begins again.
    pub segments: Vec<Segment>,
    /// Sentences for users about the parts that could not be read.
    pub damage: Vec<String>,
}

/// Lines that can be replayed without earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    pub head: FlightHead,
    /// The lines after the head, each with its line number in the file.
    pub lines: Vec<(usize, FlightLine)>,
}

impl Flights {
    /// One flight from lines that were never in a file. `None` if they do not begin a flight.
    pub fn from_lines(lines: Vec<FlightLine>) -> Option<Self> {
        let mut segments: Vec<Segment> = Vec::new();
        for (number, line) in (1..).zip(lines) {
            match line {
                FlightLine::Flight(head) => segments.push(Segment {
                    head,
                    lines: Vec::new(),
                }),
                line => segments.last_mut()?.lines.push((number, line)),
            }
        }
        Some(Self {
            segments,
            damage: Vec::new(),
        })
    }

    /// Reads a flight file. A last line without a line end was cut off by a power cut or a kill, and is ignored. Any
    /// other unreadable line ends its flight.
    ///
    /// # Errors
    ///
    /// A sentence for users, if the text has no flight that this program can read.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut flights = Self {
            segments: Vec::new(),
            damage: Vec::new(),
        };
        let mut broken = true;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let whole = line.ends_with('\n');
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<FlightLine>(line) {
                Ok(FlightLine::Flight(head)) if head.version == VERSION => {
                    broken = false;
                    flights.segments.push(Segment {
                        head,
                        lines: Vec::new(),
                    });
                }
                Ok(FlightLine::Flight(head)) => {
                    broken = true;
                    flights.damage.push(format!(
                        "line {number}: a boot log of format version {}, which this program cannot \
                         read (it reads {VERSION}); replay it with windrow {}",
                        head.version, head.windrow
                    ));
                }
                Ok(_) if broken => {}
                Ok(line) => {
                    if let Some(segment) = flights.segments.last_mut() {
                        segment.lines.push((number, line));
                    }
                }
                Err(_) if !whole => flights
                    .damage
                    .push(format!("line {number}: torn, and left out")),
                Err(_) if broken => {}
                Err(_) if let Some(word) = unknown_line(line) => flights.damage.push(format!(
                    "line {number}: `is: {word}` is of another version of Windrow, and left out"
                )),
                Err(error) => {
                    broken = true;
                    flights.damage.push(format!(
                        "line {number}: not a line of a boot log ({error}); what follows it is left \
                         out up to the next beginning"
                    ));
                }
            }
        }
        if flights.segments.is_empty() {
            return Err(match flights.damage.is_empty() {
                true => "it contains no boot log".to_owned(),
                false => flights.damage.join("; "),
            });
        }
        Ok(flights)
    }
}

/// The type of a line that this program does not know. A later version may write more types, and no known line depends
/// on them.
fn unknown_line(line: &str) -> Option<String> {
    const KNOWN: [&str; 8] = [
        "flight",
        "configuration",
        "files",
        "decision",
        "repair",
        "machine",
        "appeared",
        "release",
    ];
    #[derive(Deserialize)]
    struct Named {
        is: String,
    }
    let Named { is } = serde_json::from_str(line).ok()?;
    (!KNOWN.contains(&is.as_str())).then_some(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"is": "flight", "version": 1, "windrow": "0.1.0", "at": "2026-01-01T00:00:00Z", "boot": "b"}"#;

    #[test]
    fn what_follows_a_line_that_cannot_be_read_is_left_out_up_to_the_next_beginning() {
        let files = r#"{"is": "files", "at": "2026-01-01T00:00:00Z"}"#;
        let text = format!("{HEAD}\n{files}\nx\n{files}\n{HEAD}\n{files}\n");
        let read = Flights::read(&text).unwrap();
        let numbers = |segment: &Segment| segment.lines.iter().map(|(number, _)| *number).collect();
        let lines: Vec<Vec<usize>> = read.segments.iter().map(numbers).collect();
        assert_eq!(lines, [[2], [6]]);
    }

    #[test]
    fn of_lines_in_a_row_that_cannot_be_read_the_first_is_told() {
        let read = Flights::read(&format!("{HEAD}\nx\ny\n{HEAD}\nz\n")).unwrap();
        let told: Vec<_> = read.damage.iter().map(|line| &line[..7]).collect();
        assert_eq!((read.segments.len(), told), (2, vec!["line 2:", "line 5:"]));
        assert_eq!(
            Flights::read("x\ny\n").unwrap_err(),
            "it contains no boot log"
        );
    }

    #[test]
    fn a_line_that_a_later_version_writes_is_left_out_and_what_follows_it_is_read() {
        let files = r#"{"is": "files", "at": "2026-01-01T00:00:00Z"}"#;
        let read = Flights::read(&format!("{HEAD}\n{{\"is\": \"weather\"}}\n{files}\n")).unwrap();
        let numbers: Vec<usize> = read.segments[0].lines.iter().map(|(at, _)| *at).collect();
        assert_eq!(numbers, [3]);
        assert_eq!(read.damage.len(), 1);
        assert!(
            read.damage[0].contains("`is: weather`"),
            "{:?}",
            read.damage
        );
        // A known type of line with wrong content still ends the flight.
        let broken = Flights::read(&format!("{HEAD}\n{{\"is\": \"files\"}}\n{files}\n")).unwrap();
        assert_eq!(broken.segments[0].lines, []);
    }
}
