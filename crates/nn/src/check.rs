//! Finite differences, which gradients are checked against.

/// Numbers from -0.5 to 0.5 that look random and are the same in every run.
pub(crate) fn noise(seed: u32) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1_u32 << 24) as f32 - 0.5
    }
}

/// Every slope is the difference of the loss beside its number, divided by the distance. Where a bend (of a `ReLU`, say) lies between both
/// sides, the slope lies between those of the two sides.
pub(crate) fn assert_slopes(numbers: &[f32], slopes: &[f32], loss: impl Fn(&[f32]) -> f64) {
    let mut moved = numbers.to_vec();
    let here = loss(&moved);
    for place in 0..numbers.len() {
        let step = 2e-3_f32;
        moved[place] = numbers[place] + step;
        let above = (loss(&moved) - here) / f64::from(step);
        moved[place] = numbers[place] - step;
        let below = (here - loss(&moved)) / f64::from(step);
        moved[place] = numbers[place];
        let slope = f64::from(slopes[place]);
        let slack = 2e-3 * (1.0 + slope.abs());
        let bounds = above.min(below) - slack..=above.max(below) + slack;
        assert!(bounds.contains(&slope), "number {place}: {below} and {above} against {slope}");
    }
}
