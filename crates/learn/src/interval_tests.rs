//! Checks that the interval has the promised width, over several distributions, with a fixed seed.

use super::*;

/// SplitMix64 (Steele, Lea, Flood 2014): pseudo-random numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut one = self.0;
        one = (one ^ (one >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        one = (one ^ (one >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        one ^ (one >> 31)
    }

    /// Above 0 and below 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[test]
fn below_a_hundred_seconds_a_time_has_tenths_and_above_it_has_none() {
    let times = |seconds: f64| [down, up].map(|round| rounded(seconds, round).as_millis());
    assert_eq!(times(12.34), [12_300, 12_400]);
    assert_eq!(times(99.96), [99_900, 100_000]);
    assert_eq!(times(123.4), [123_000, 124_000]);
}

type Distribution = fn(&mut Numbers) -> f64;

fn lognormal(numbers: &mut Numbers) -> f64 {
    (60f64.ln() + 0.5 * numbers.normal()).exp()
}

/// The sum of three exponential times: gamma with shape 3.
fn gamma(numbers: &mut Numbers) -> f64 {
    -20.0 * (numbers.unit() * numbers.unit() * numbers.unit()).ln()
}

/// One of four nodes is three times slower.
fn bimodal(numbers: &mut Numbers) -> f64 {
    let middle = if numbers.unit() < 0.25 { 90.0 } else { 30.0 };
    middle * (0.1 * numbers.normal()).exp()
}

fn constant(_: &mut Numbers) -> f64 {
    42.0
}

/// The shares of trials in which the next value is in the half and in the nine-of-ten interval.
fn coverage(draw: Distribution, count: usize, numbers: &mut Numbers) -> (f64, f64) {
    const TRIALS: usize = 1500;
    let (mut half, mut most) = (0, 0);
    for _ in 0..TRIALS {
        let mut one = || (draw(numbers) * 1000.0) as u64;
        let values: Vec<u64> = (0..count).map(|_| one()).collect();
        let next = Duration::from_millis(one());
        let times = predict(&values).unwrap();
        half += usize::from((times.p25..=times.p75).contains(&next));
        most += usize::from((times.p5..=times.p95).contains(&next));
    }
    let share = |hits: usize| hits as f64 / TRIALS as f64;
    (share(half), share(most))
}

#[test]
fn nine_of_ten_next_values_lie_in_the_wide_interval_from_eight_boots_on() {
    let mut numbers = Numbers(21);
    let mut all = Vec::new();
    for count in [8, 12, 18, 19, 25, 38, 39, 60, 120, 200] {
        for draw in [lognormal, gamma, bimodal, constant] as [Distribution; 4] {
            all.push(coverage(draw, count, &mut numbers).1);
        }
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!((0.85..=0.97).contains(&mean), "{mean}");
    // No distribution that varies differs much from it.
    for (number, one) in all.iter().enumerate() {
        assert!(*one >= 0.84, "number {number}: {one}");
    }
}

#[test]
fn few_boots_make_a_wide_interval_rather_than_a_narrow_one() {
    let mut numbers = Numbers(7);
    for count in 1..8 {
        for draw in [lognormal, gamma, bimodal, constant] as [Distribution; 4] {
            let (_, most) = coverage(draw, count, &mut numbers);
            assert!(most >= 0.80, "{count}: {most}");
        }
    }
    let one = predict(&[60_000]).unwrap();
    assert!(one.p5 < Duration::from_secs(15) && one.p95 > Duration::from_secs(240));
}

#[test]
fn half_of_the_next_values_lie_in_the_narrow_interval_where_logarithms_are_normal() {
    let mut numbers = Numbers(3);
    for count in [5, 10, 20, 60, 200] {
        let (half, _) = coverage(lognormal, count, &mut numbers);
        assert!((0.44..=0.58).contains(&half), "{count}: {half}");
    }
}

#[test]
fn students_quantiles_are_those_of_the_tables() {
    for (p, freedom, table) in [
        (0.95, 1, 6.3138),
        (0.95, 2, 2.9200),
        (0.95, 7, 1.8946),
        (0.95, 37, 1.6871),
        (0.75, 1, 1.0000),
        (0.75, 4, 0.7407),
        (0.75, 30, 0.6828),
    ] {
        let found = student_quantile(p, freedom);
        assert!((found - table).abs() < 1e-4, "{p} {freedom}: {found}");
    }
}

#[test]
fn absurd_times_make_no_absurd_interval() {
    for values in [
        &[0][..],
        &[0, 0, 0],
        &[u64::MAX],
        &[0, u64::MAX, 5],
        &[1, 1_000_000_000_000],
    ] {
        let times = predict(values).unwrap();
        let order = [times.p5, times.p25, times.half, times.p75, times.p95];
        assert!(order.is_sorted(), "{values:?}: {order:?}");
        assert!(times.p95 <= Duration::from_secs(30 * 24 * 3600));
    }
    assert_eq!(predict(&[]), None);
}
