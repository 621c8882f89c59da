//! Medians, spreads and percentiles.

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

/// Lowest and highest.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// By nearest rank: every figure is one that was measured.
pub(crate) fn percentiles(mut values: Vec<f64>) -> Option<Percentiles> {
    values.sort_by(f64::total_cmp);
    let rank = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
    };
    Some(Percentiles {
        p50: rank(0.5)?,
        p99: rank(0.99)?,
        p999: rank(0.999)?,
        max: rank(1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![5.0]), Some(5.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some((1.0, 9.0)));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_percentile_is_the_value_at_its_rank() {
        let thousand = (1..=1000).rev().map(f64::from).collect();
        let found = percentiles(thousand).unwrap();
        assert_eq!((found.p50, found.p99), (500.0, 990.0));
        assert_eq!((found.p999, found.max), (999.0, 1000.0));
        let one = percentiles(vec![7.0]).unwrap();
        assert_eq!((one.p50, one.p99, one.p999), (7.0, 7.0, 7.0));
        assert_eq!(percentiles(vec![]), None);
    }
}
