//! Prediction intervals: the range that contains the next value with this probability. These are not quantiles of the
//! known values, which are too narrow for a small number of values.
//!
//! - With 39 values or more: between order statistics. The position `p (n + 1)` in the sorted values, interpolated if
//!   it is not an integer, has the next value below it with probability `p`, for any distribution (David, Nagaraja:
//!   Order Statistics, 7.2).
//! - With fewer values: Student's interval for a new observation on the logarithms, `m ± t s sqrt(1 + 1/n)` with
//!   `n - 1` degrees of freedom (ISO 16269-8). It is correct for times whose logarithm is approximately normal. With fewer
//!   than 19 values, the wide interval is never narrower than all known values.
//! - One or two values contain no information about the spread: an assumed spread, a factor of about 1.6, is included
//!   in the calculation.

use std::time::Duration;

use windrow_plan::knowledge::LearnedTimes;

/// From this number on, nine of ten are between order statistics.
const ENOUGH: usize = 39;
/// From this number on, half of them are.
const ENOUGH_FOR_HALF: usize = 19;
/// Below this number, the wide interval contains every value.
const FEW: usize = 19;
/// The spread of logarithms to use if it is unknown.
const USUAL_SPREAD: f64 = 0.5;
/// The minimum spread of logarithms: a few equal times are equal by chance.
const LEAST_SPREAD: f64 = 0.01;
/// Added before the logarithm is taken, in seconds: a time may be zero, and an object's own time is precise only to
/// half a second.
const GRAIN: f64 = 0.5;
/// The longest time of an interval, in seconds: thirty days.
const LONGEST: f64 = 30.0 * 24.0 * 3600.0;

/// An interval for the next value, from values in milliseconds. `None` without values.
pub fn predict(values: &[u64]) -> Option<LearnedTimes> {
    let mut seconds: Vec<f64> = values.iter().map(|ms| *ms as f64 / 1000.0).collect();
    seconds.sort_by(f64::total_cmp);
    let (first, last) = (*seconds.first()?, *seconds.last()?);
    let count = seconds.len();
    let half = order_statistic(&seconds, 0.5);
    let (p25, p75) = match count >= ENOUGH_FOR_HALF {
        true => (
            order_statistic(&seconds, 0.25),
            order_statistic(&seconds, 0.75),
        ),
        false => by_logarithms(&seconds, 0.75),
    };
    let (p5, p95) = match count {
        ENOUGH.. => (
            order_statistic(&seconds, 0.05),
            order_statistic(&seconds, 0.95),
        ),
        _ => {
            let (low, high) = by_logarithms(&seconds, 0.95);
            match count < FEW {
                true => (low.min(first), high.max(last)),
                false => (low, high),
            }
        }
    };
    let (p5, p95) = (p5.min(half), p95.max(half));
    let p25 = p25.clamp(p5, half);
    let p75 = p75.clamp(half, p95);
    Some(LearnedTimes {
        p5: rounded(p5, down),
        p25: rounded(p25, down),
        half: rounded(half, f64::round),
        p75: rounded(p75, up),
        p95: rounded(p95, up),
    })
}

/// The value at the position `p (n + 1)`, counted from 1.
fn order_statistic(sorted: &[f64], p: f64) -> f64 {
    let place = (p * (sorted.len() as f64 + 1.0)).clamp(1.0, sorted.len() as f64);
    let below = place.floor();
    // The clamp above keeps this within the bounds of the slice.
    let at = |place: f64| sorted[(place as usize - 1).min(sorted.len() - 1)];
    let (low, high) = (at(below), at(below + 1.0));
    low + (high - low) * (place - below)
}

/// Student's interval on the logarithms, up to the probability `p` on one side.
fn by_logarithms(sorted: &[f64], p: f64) -> (f64, f64) {
    let logarithms: Vec<f64> = sorted.iter().map(|one| (one + GRAIN).ln()).collect();
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|one| (one - mean).powi(2)).sum();
    let (squares, freedom) = match sorted.len() {
        1 => (2.0 * USUAL_SPREAD.powi(2), 2),
        2 => (squares + USUAL_SPREAD.powi(2), 2),
        many => (squares, many - 1),
    };
    let spread = (squares / freedom as f64).sqrt().max(LEAST_SPREAD);
    let reach = student_quantile(p, freedom) * spread * (1.0 + 1.0 / count).sqrt();
    let back = |logarithm: f64| logarithm.exp() - GRAIN;
    (back(mean - reach), back(mean + reach))
}

/// The quantile of Student's t, for a probability of more than one half: by bisection of its distribution.
fn student_quantile(p: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        match student_distribution(middle, freedom) < p {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Student's distribution function for `t` of at least zero and an integer number of degrees of freedom (Abramowitz,
/// Stegun 26.7.3 and 26.7.4).
fn student_distribution(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut factor = if is_odd { 2.0 } else { 1.0 };
    while factor + 1.0 < freedom as f64 {
        term *= cosine * cosine * factor / (factor + 1.0);
        sum += term;
        factor += 2.0;
    }
    let both_sides = match is_odd {
        true => (angle + sine * sum) * std::f64::consts::FRAC_2_PI,
        false => sine * sum,
    };
    0.5 + both_sides / 2.0
}

/// These round down and up to integers. The calculation with logarithms may have made an integer slightly smaller or
/// larger.
fn down(number: f64) -> f64 {
    (number + 1e-6).floor()
}

fn up(number: f64) -> f64 {
    (number - 1e-6).ceil()
}

/// Tenths of a second below 100 seconds, seconds above.
fn rounded(seconds: f64, round: fn(f64) -> f64) -> Duration {
    let seconds = match seconds.is_finite() {
        true => seconds.clamp(0.0, LONGEST),
        false => LONGEST,
    };
    let grain = if seconds < 100.0 { 10.0 } else { 1.0 };
    // The clamp above keeps this within bounds.
    Duration::from_millis((round(seconds * grain) / grain * 1000.0).round() as u64)
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
