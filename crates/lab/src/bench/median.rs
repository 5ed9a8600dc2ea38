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

/// The interval of order statistics that holds the median of what `sorted` are samples of with 95 %; of fewer than
/// nine samples, all of them.
pub(super) fn median_interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len() as f64;
    let reach = 0.98 * count.sqrt();
    let low = (count / 2.0 - reach).floor().max(0.0) as usize;
    let high = ((count / 2.0 + reach).ceil() as usize).min(sorted.len().saturating_sub(1));
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    (at(low), at(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_its_interval() {
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        assert_eq!(median(&values), 8.0);
        // The fourth and the thirteenth hold it with 98 %.
        assert_eq!(median_interval(&values), (4.0, 13.0));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[]), 0.0);
    }
}
