//! Axes: where a value lies, and which values deserve a tick.

/// An axis from one value to another, over a range of pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    pixel_from: i32,
    pixel_to: i32,
    logarithmic: bool,
}

impl Scale {
    pub(super) fn linear(values: (f64, f64), pixels: (i32, i32)) -> Self {
        Self::new(values, pixels, false)
    }

    /// Both values must be positive.
    pub(super) fn logarithmic(values: (f64, f64), pixels: (i32, i32)) -> Self {
        Self::new((values.0.log2(), values.1.log2()), pixels, true)
    }

    fn new((from, to): (f64, f64), (pixel_from, pixel_to): (i32, i32), logarithmic: bool) -> Self {
        // One value alone still gets an axis.
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, pixel_from, pixel_to, logarithmic }
    }

    /// The pixel of a value, within the axis.
    pub(super) fn pixel(&self, value: f64) -> i32 {
        let value = if self.logarithmic { value.log2() } else { value };
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.pixel_from + (part * f64::from(self.pixel_to - self.pixel_from)).round() as i32
    }
}

/// Round values from zero to just above `max`, about `wanted` of them.
pub(super) fn round_ticks(max: f64, wanted: usize) -> Vec<f64> {
    if max.is_nan() || max <= 0.0 || max.is_infinite() || wanted == 0 {
        return vec![0.0, 1.0];
    }
    let rough = max / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|m| m * power >= rough * 0.999);
    let step = step.unwrap_or(10.0) * power;
    let count = (max / step).ceil() as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

/// Powers of four from 1 to `max`.
pub(super) fn length_ticks(min: u64, max: u64, ratio: u64) -> Vec<u64> {
    let mut ticks = Vec::new();
    let mut tick = 1u64;
    while tick <= max {
        if tick >= min {
            ticks.push(tick);
        }
        match tick.checked_mul(ratio.max(2)) {
            Some(next) => tick = next,
            None => break,
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(round_ticks(47.0, 5), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(round_ticks(2300.0, 5), [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0]);
        assert_eq!(round_ticks(0.0, 5), [0.0, 1.0]);
        assert_eq!(round_ticks(f64::NAN, 5), [0.0, 1.0]);
        assert_eq!(length_ticks(1, 300, 4), [1, 4, 16, 64, 256]);
        assert_eq!(length_ticks(5, u64::MAX, 4).first(), Some(&16));
    }

    #[test]
    fn values_land_in_the_axis() {
        let log = Scale::logarithmic((1.0, 1024.0), (0, 100));
        assert_eq!((log.pixel(1.0), log.pixel(32.0), log.pixel(1024.0)), (0, 50, 100));
        let up = Scale::linear((0.0, 10.0), (200, 100));
        assert_eq!((up.pixel(0.0), up.pixel(5.0), up.pixel(99.0)), (200, 150, 100));
        assert_eq!(Scale::linear((3.0, 3.0), (0, 10)).pixel(3.0), 0);
    }
}
