//! Finite differences, which gradients are checked against.

/// Numbers from -0.5 to 0.5 that look random and are the same in every run.
pub(crate) fn noise(seed: u32) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1_u32 << 24) as f32 - 0.5
    }
}

/// Every slope is the difference of the loss on both sides of its number, divided by their distance.
pub(crate) fn assert_slopes(numbers: &[f32], slopes: &[f32], loss: impl Fn(&[f32]) -> f64) {
    let mut moved = numbers.to_vec();
    for place in 0..numbers.len() {
        let step = 4e-3_f32;
        moved[place] = numbers[place] + step;
        let above = loss(&moved);
        moved[place] = numbers[place] - step;
        let below = loss(&moved);
        moved[place] = numbers[place];
        let numeric = (above - below) / f64::from(2.0 * step);
        let slope = f64::from(slopes[place]);
        assert!((numeric - slope).abs() < 3e-3 * (1.0 + numeric.abs()), "number {place}: {numeric} against {slope}");
    }
}
