//! Prediction intervals: where the next value falls, with this probability. Not quantiles of the values so far, which are too narrow
//! while there are few.
//!
//! - Of 39 values and more: between order statistics. The place `p (n + 1)` of the sorted values, between two of them where it is not
//!   whole, leaves the next value below it with probability `p`, whatever the distribution is (David, Nagaraja: Order Statistics, 7.2).
//! - Below: Student's interval for a new observation on the logarithms, `m ± t s sqrt(1 + 1/n)` with `n - 1` degrees of freedom (ISO
//!   16269-8). It is right for times whose logarithm is about normal. The wide one is never narrower than all values so far where
//!   these are fewer than 19.
//! - One or two values say nothing of the spread: a factor of about 1.6 is counted among them.

use std::time::Duration;

use windrow_plan::knowledge::LearnedTimes;

/// From here on nine of ten lie between order statistics.
const ENOUGH: usize = 39;
/// From here on half of them do.
const ENOUGH_FOR_HALF: usize = 19;
/// Below that the wide interval holds every value.
const FEW: usize = 19;
/// The spread of logarithms that is taken where it is not known.
const USUAL_SPREAD: f64 = 0.5;
/// The least spread of logarithms: few times that are all the same are so by chance.
const LEAST_SPREAD: f64 = 0.01;
/// Added before the logarithm is taken, in seconds: a time may be zero, and is known to half a second where it is an object's own.
const GRAIN: f64 = 0.5;
/// Longest time of an interval, in seconds: thirty days.
const LONGEST: f64 = 30.0 * 24.0 * 3600.0;

/// An interval for the next value, from values in milliseconds. `None` where there is none.
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

/// The value at the place `p (n + 1)`, counted from 1.
fn order_statistic(sorted: &[f64], p: f64) -> f64 {
    let place = (p * (sorted.len() as f64 + 1.0)).clamp(1.0, sorted.len() as f64);
    let below = place.floor();
    // Within the bounds of the slice by the clamp above.
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

/// Student's distribution function for `t` of at least zero and a whole number of degrees of freedom (Abramowitz, Stegun 26.7.3 and
/// 26.7.4).
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

/// Down and up to whole numbers, where reckoning with logarithms made a whole one a little less or more.
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
    // Within bounds by the clamp above.
    Duration::from_millis((round(seconds * grain) / grain * 1000.0).round() as u64)
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
