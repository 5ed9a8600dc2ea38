//! Statistics of repeated samples: their median, and how far they lie apart.

/// The median of sorted values; 0 without values.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (at(half.saturating_sub(1)) + at(half)) / 2.0,
        _ => at(half),
    }
}

/// The interval of order statistics that holds the median of what `sorted` are samples of with at least 95 %: all of
/// them, if they are fewer than nine. That of fewer than six holds it with less.
pub(super) fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    // The samples below the median are as many as heads of a coin.
    let mut exactly = 0.5_f64.powf(count as f64);
    let (mut fewer, mut low) = (exactly, 0);
    while fewer <= 0.025 && low < count / 2 {
        low += 1;
        exactly *= (count - low + 1) as f64 / low as f64;
        fewer += exactly;
    }
    let low = low.saturating_sub(1);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    (at(low), at(count.saturating_sub(low + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_its_interval() {
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        assert_eq!(median(&values), 8.0);
        // The fourth and the twelfth hold it with 96 %.
        assert_eq!(median_interval(&values), (4.0, 12.0));
        assert_eq!(median_interval(&values[..9]), (2.0, 8.0));
        for few in 1..9 {
            assert_eq!(median_interval(&values[..few]), (1.0, few as f64));
        }
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[]), 0.0);
    }
}
