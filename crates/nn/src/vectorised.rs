//! Inner loops that are compiled twice: for any processor, and for those with AVX2. Both do the same operations in the same order, so that
//! they give the same bits; the faster one is chosen while the program runs.

/// Makes a function whose body is compiled for any processor and, on x86-64, for AVX2 too.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $kind),*) {
            // The body must be compiled inside `wide` to use wide registers.
            #[inline(always)]
            fn plain($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $kind),*) {
                    plain($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: `wide` needs AVX2 and nothing else, and the processor has just said that it has it.
                    #[expect(unsafe_code, reason = "a function for AVX2 may only be called where there is AVX2")]
                    unsafe {
                        wide($($arg),*);
                    }
                    return;
                }
            }
            plain($($arg),*);
        }
    };
}
pub(crate) use vectorised;

/// e to the power of `x`, to about 1e-7 relative, without a branch or a call.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it rounds to a whole number, whose low bits then stand at the end of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let series = 1.987_569_1e-4_f32;
    let series = series * rest + 1.398_2e-3;
    let series = series * rest + 8.333_452e-3;
    let series = series * rest + 4.166_579_6e-2;
    let series = series * rest + 1.666_666_5e-1;
    let series = series * rest + 0.5;
    let value = series * rest * rest + rest + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    value * power
}

/// 1 / (1 + e^-x).
#[expect(clippy::inline_always, reason = "called inside loops that become vector instructions")]
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent, to about 1e-7 absolute.
#[expect(clippy::inline_always, reason = "called inside loops that become vector instructions")]
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}

/// Adds `input · weights` to a stretch of `N` outputs; their sums stay in registers.
#[expect(clippy::inline_always, reason = "the body must be compiled inside a vectorised function")]
#[inline(always)]
fn add_block<const N: usize>(weights: &[f32], width: usize, start: usize, input: &[f32], output: &mut [f32]) {
    let mut sums = [0.0; N];
    sums.copy_from_slice(&output[start..start + N]);
    for (value, row) in input.iter().zip(weights.chunks_exact(width)) {
        let row = &row[start..start + N];
        for lane in 0..N {
            sums[lane] += value * row[lane];
        }
    }
    output[start..start + N].copy_from_slice(&sums);
}

vectorised! {
    /// Adds to `output` the row `input` times the matrix `weights`, which lies input by input.
    pub(crate) fn add_row_times_matrix(weights: &[f32], input: &[f32], output: &mut [f32]) {
        let width = output.len();
        let mut start = 0;
        while start + 40 <= width {
            add_block::<40>(weights, width, start, input, output);
            start += 40;
        }
        while start + 8 <= width {
            add_block::<8>(weights, width, start, input, output);
            start += 8;
        }
        while start < width {
            add_block::<1>(weights, width, start, input, output);
            start += 1;
        }
    }
}

vectorised! {
    /// Sets `output` to the matrix `weights` (input by input) times the column `slopes`: the way back of `add_row_times_matrix`.
    pub(crate) fn matrix_times_column(weights: &[f32], slopes: &[f32], output: &mut [f32]) {
        const LANES: usize = 16;
        let whole = slopes.len() / LANES * LANES;
        for (result, row) in output.iter_mut().zip(weights.chunks_exact(slopes.len())) {
            let mut sums = [0.0; LANES];
            for (row, slopes) in row[..whole].chunks_exact(LANES).zip(slopes[..whole].chunks_exact(LANES)) {
                for lane in 0..LANES {
                    sums[lane] += row[lane] * slopes[lane];
                }
            }
            let rest = row[whole..].iter().zip(&slopes[whole..]).map(|(weight, slope)| weight * slope).sum::<f32>();
            *result = sums.iter().sum::<f32>() + rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_as_exact_as_promised() {
        for step in -4000..=4000_i16 {
            let x = f32::from(step) * 0.02;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 3e-7, "exp({x})");
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 3e-7, "tanh({x})");
        }
    }

    #[test]
    fn products_of_every_width_equal_the_sums_they_stand_for() {
        for width in [1, 7, 8, 16, 41, 64, 200] {
            let inputs = 5;
            let weights = (0..inputs * width).map(|place| (place % 7) as f32 - 3.0).collect::<Vec<_>>();
            let row = [1.0, -2.0, 0.5, 3.0, 0.0];
            let mut output = vec![1.0; width];
            add_row_times_matrix(&weights, &row, &mut output);
            for (place, value) in output.iter().enumerate() {
                let wanted = 1.0 + (0..inputs).map(|input| row[input] * weights[input * width + place]).sum::<f32>();
                assert!((value - wanted).abs() < 1e-5);
            }
            let mut back = vec![9.0; inputs];
            matrix_times_column(&weights, &output, &mut back);
            for (input, value) in back.iter().enumerate() {
                let wanted = (0..width).map(|place| weights[input * width + place] * output[place]).sum::<f32>();
                assert!((value - wanted).abs() < 1e-3 * (1.0 + wanted.abs()));
            }
        }
    }
}
