//! The inner loops: sums of products over short rows, and the hyperbolic tangent, written so that a compiler makes vector instructions of
//! them on any processor. Nothing here depends on the machine: the same numbers come out everywhere.

/// Outputs that are summed in registers at once.
const LANES: usize = 32;
/// Rows whose slopes are added up before the gradient is written.
const ROWS: usize = 4;

/// A loop that is also compiled for wider registers, which are used where the processor has them. Products are not fused with sums, so
/// both give the same bits.
macro_rules! with_wide_registers {
    ($(#[$about:meta])* pub fn $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        $(#[$about])*
        #[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "instructions are used after asking for them"))]
        pub fn $name($($argument: $type),*) {
            #[inline(always)]
            fn plain($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn wide($($argument: $type),*) {
                plain($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has these registers.
                return unsafe { wide($($argument),*) };
            }
            plain($($argument),*);
        }
    };
}

with_wide_registers! {
    /// Adds to `sums` (which hold the biases) the products of a row with weights, kept input by input.
    pub fn add_products(row: &[f32], weights: &[f32], sums: &mut [f32]) {
        let width = sums.len();
        let mut first = 0;
        while first + LANES <= width {
            let mut lanes = [0.0_f32; LANES];
            lanes.copy_from_slice(&sums[first..first + LANES]);
            for (value, weights) in row.iter().zip(weights.chunks_exact(width)) {
                for (lane, weight) in lanes.iter_mut().zip(&weights[first..first + LANES]) {
                    *lane += value * weight;
                }
            }
            sums[first..first + LANES].copy_from_slice(&lanes);
            first += LANES;
        }
        if first < width {
            for (value, weights) in row.iter().zip(weights.chunks_exact(width)) {
                for (sum, weight) in sums[first..].iter_mut().zip(&weights[first..]) {
                    *sum += value * weight;
                }
            }
        }
    }
}

/// Weights output by output, from weights input by input.
pub fn turned(weights: &[f32], to: usize, turned: &mut Vec<f32>) {
    turned.clear();
    for output in 0..to {
        turned.extend(weights.iter().skip(output).step_by(to));
    }
}

with_wide_registers! {
    /// Adds to the gradient of weights, kept input by input, the products of all rows of inputs with their rows of slopes.
    pub fn add_outer_products(inputs: &[f32], from: usize, slopes: &[f32], to: usize, gradient: &mut [f32]) {
        let mut input_blocks = inputs.chunks_exact(from * ROWS);
        let mut slope_blocks = slopes.chunks_exact(to * ROWS);
        for (values, slopes) in input_blocks.by_ref().zip(slope_blocks.by_ref()) {
            let (first, rest) = slopes.split_at(to);
            let (second, rest) = rest.split_at(to);
            let (third, fourth) = rest.split_at(to);
            for (input, gradient) in gradient.chunks_exact_mut(to).enumerate() {
                let (a, b) = (values[input], values[from + input]);
                let (c, d) = (values[2 * from + input], values[3 * from + input]);
                let slopes = first.iter().zip(second).zip(third).zip(fourth);
                for (gradient, (((first, second), third), fourth)) in gradient.iter_mut().zip(slopes) {
                    *gradient += (a * first + b * second) + (c * third + d * fourth);
                }
            }
        }
        let rest = input_blocks.remainder().chunks_exact(from).zip(slope_blocks.remainder().chunks_exact(to));
        for (values, slopes) in rest {
            for (value, gradient) in values.iter().zip(gradient.chunks_exact_mut(to)) {
                for (gradient, slope) in gradient.iter_mut().zip(slopes) {
                    *gradient += value * slope;
                }
            }
        }
    }
}

with_wide_registers! {
    /// Replaces each value by its hyperbolic tangent.
    pub fn bend_by_tanh(values: &mut [f32]) {
        for value in values.iter_mut() {
            *value = tanh(*value);
        }
    }
}

/// The hyperbolic tangent, within 2e-7 of the true one. With e = exp(2x) it is (e - 1) / (e + 1), where e - 1 is found without
/// cancellation: 2x is a whole number of ln 2 and a small rest, whose exponential is a short series.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    /// Beyond this the tangent is 1 to the last bit.
    const FAR: f32 = 9.5;
    /// Adding it rounds a small number to a whole one, which then stands in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let doubled = 2.0 * x.clamp(-FAR, FAR);
    let shifted = doubled * std::f32::consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let rest = (doubled - whole * LN2_HIGH) - whole * LN2_LOW;
    let series = 1.0 / 24.0 + rest * (1.0 / 120.0 + rest * (1.0 / 720.0 + rest * (1.0 / 5040.0)));
    let series = rest + rest * rest * (0.5 + rest * (1.0 / 6.0 + rest * series));
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23);
    let less_one = power * series + (power - 1.0);
    less_one / (less_one + 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1_u32 << 23) as f32 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn sums_of_products_are_what_they_are_one_by_one() {
        for (from, to) in [(1, 1), (6, 64), (7, 33), (64, 31), (18, 100)] {
            let (row, weights, biases) = (numbers(from, 1), numbers(from * to, 2), numbers(to, 3));
            let mut sums = biases.clone();
            add_products(&row, &weights, &mut sums);
            for output in 0..to {
                // In the same order, so that it is the same to the last bit.
                let plain = (0..from).fold(biases[output], |sum, input| sum + row[input] * weights[input * to + output]);
                assert_eq!(sums[output].to_bits(), plain.to_bits());
            }
            let mut other_way = Vec::new();
            turned(&weights, to, &mut other_way);
            assert!((0..from * to).all(|place| other_way[place % to * from + place / to].to_bits() == weights[place].to_bits()));
        }
    }

    #[test]
    fn outer_products_of_all_rows_are_added() {
        for rows in [1, 3, 4, 9] {
            let (from, to) = (5, 7);
            let (inputs, slopes) = (numbers(rows * from, 4), numbers(rows * to, 5));
            let mut gradient = vec![1.0; from * to];
            add_outer_products(&inputs, from, &slopes, to, &mut gradient);
            for (input, output) in (0..from).flat_map(|input| (0..to).map(move |output| (input, output))) {
                let plain = (0..rows).map(|row| inputs[row * from + input] * slopes[row * to + output]).sum::<f32>();
                assert!((gradient[input * to + output] - 1.0 - plain).abs() < 1e-5, "{rows} rows");
            }
        }
    }

    #[test]
    fn the_tangent_is_right_everywhere() {
        let inputs = (-20_000..=20_000).map(|step| step as f32 * 0.001).collect::<Vec<_>>();
        let mut bent = inputs.clone();
        bend_by_tanh(&mut bent);
        for (x, ours) in inputs.into_iter().zip(bent) {
            assert_eq!(ours.to_bits(), tanh(x).to_bits());
            let (ours, true_one) = (f64::from(ours), f64::from(x).tanh());
            assert!((ours - true_one).abs() < 2e-7, "tanh({x}) = {ours}, not {true_one}");
            assert!((ours - true_one).abs() < 1e-6 * true_one.abs().max(1e-30), "tanh({x}) = {ours}, not {true_one}");
        }
        assert_eq!((tanh(0.0), tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (0.0, 1.0, -1.0));
        assert!((tanh(1e-8) - 1e-8).abs() < 1e-14 && tanh(f32::NAN).is_nan());
    }
}
