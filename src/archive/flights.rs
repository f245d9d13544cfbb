//! Boot logs (flights) from elsewhere, read within bounds.

use windrow_replay::Flights;

use crate::json_values::ValueBudget;

/// Longest line, in bytes. Manifests take at most a quarter of a boot log of 32 MiB, and all else is shorter.
const LONGEST_LINE: usize = 16 << 20;

/// Reads a boot log, up to the line that Windrow cannot have written. The values of all its parts share the budget.
///
/// # Errors
///
/// If nothing in it is a boot log that this program can read; a sentence for users.
pub fn read_flights(bytes: &[u8], budget: &mut ValueBudget) -> Result<Flights, String> {
    let Some((line, why)) = first_excess(bytes, budget) else {
        return Flights::read(&String::from_utf8_lossy(bytes));
    };
    let why = format!(
        "line {}: {why}; this line and the rest are left out",
        line.number
    );
    let mut flights =
        Flights::read(&String::from_utf8_lossy(&bytes[..line.begin])).map_err(|_| why.clone())?;
    flights.damage.push(why);
    Ok(flights)
}

struct LinePlace {
    /// From 1.
    number: usize,
    /// Its first byte.
    begin: usize,
}

fn first_excess(bytes: &[u8], budget: &mut ValueBudget) -> Option<(LinePlace, String)> {
    let mut begin = 0;
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let why = if line.len() > LONGEST_LINE {
            Some(format!("it is longer than {} MiB", LONGEST_LINE >> 20))
        } else {
            budget.take_line(line).err().map(|error| error.to_string())
        };
        if let Some(why) = why {
            return Some((LinePlace { number, begin }, why));
        }
        begin += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"is": "flight", "version": 1, "windrow": "0.1.0", "at": "2026-01-01T00:00:00Z", "boot": "b"}"#;

    /// A head, a line with this additional value, and an ordinary line.
    fn flight(further: &str) -> String {
        let files = r#"{"is": "files", "at": "2026-01-01T00:00:00Z""#;
        format!("{HEAD}\n{files}, \"more\": {further}}}\n{files}}}\n")
    }

    #[test]
    fn a_line_of_a_flight_has_a_bound() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
        for further in [
            zeros(LONGEST_LINE / 2),
            zeros(20_000),
            format!(r#"{{"managedFields": {}}}"#, zeros(20_000)),
        ] {
            let mut budget = ValueBudget::of(64 << 10);
            let read = read_flights(flight(&further).as_bytes(), &mut budget).unwrap();
            assert_eq!(read.segments.len(), 1);
            assert_eq!(read.segments[0].lines, [], "{further:.40}");
            assert!(read.damage[0].starts_with("line 2: "), "{:?}", read.damage);
        }
        let mut budget = ValueBudget::of_flights();
        let read = read_flights(flight(&zeros(20_000)).as_bytes(), &mut budget).unwrap();
        assert_eq!(read.segments[0].lines.len(), 2);
        assert!(read.damage.is_empty(), "{:?}", read.damage);
    }

    #[test]
    fn a_flight_that_exceeds_a_bound_at_once_is_refused_and_a_torn_line_costs_only_itself() {
        let refused = read_flights(HEAD.as_bytes(), &mut ValueBudget::of(10)).unwrap_err();
        assert!(refused.starts_with("line 1: "), "{refused}");
        let torn = format!("{}{{\"is\": \"fi", flight("0"));
        let read = read_flights(torn.as_bytes(), &mut ValueBudget::of_flights()).unwrap();
        assert_eq!(read.segments[0].lines.len(), 2);
        assert_eq!(read.damage.len(), 1);
    }
}
