//! Means over pixels, and images laid flat.

use super::stack::Shape;

/// The mean of 2×2 pixels; a last odd row or column is left out.
pub(super) fn average(input: &[f32], shape: Shape, output: &mut Vec<f32>) {
    let (height, width) = (shape.height / 2, shape.width / 2);
    output.clear();
    for image in input.chunks_exact(shape.pixels()) {
        for row in 0..height {
            let upper = &image[2 * row * shape.width..][..2 * width];
            let lower = &image[(2 * row + 1) * shape.width..][..2 * width];
            let pairs = upper.chunks_exact(2).zip(lower.chunks_exact(2));
            output.extend(pairs.map(|(upper, lower)| 0.25 * (upper[0] + upper[1] + lower[0] + lower[1])));
        }
    }
}

pub(super) fn average_back(slopes: &[f32], shape: Shape, input_slopes: &mut Vec<f32>) {
    let (height, width) = (shape.height / 2, shape.width / 2);
    let images = slopes.len() / (height * width);
    input_slopes.clear();
    input_slopes.resize(images * shape.pixels(), 0.0);
    for (own, target) in slopes.chunks_exact(height * width).zip(input_slopes.chunks_exact_mut(shape.pixels())) {
        for row in 0..height {
            let own = &own[row * width..(row + 1) * width];
            for half in 0..2 {
                let line = &mut target[(2 * row + half) * shape.width..][..2 * width];
                line.chunks_exact_mut(2).zip(own).for_each(|(pair, slope)| pair.fill(0.25 * slope));
            }
        }
    }
}

/// The mean of all pixels of each channel of each image.
pub(super) fn global(input: &[f32], shape: Shape, output: &mut Vec<f32>) {
    let count = shape.pixels() as f32;
    output.clear();
    output.extend(input.chunks_exact(shape.pixels()).map(|image| image.iter().sum::<f32>() / count));
}

pub(super) fn global_back(slopes: &[f32], shape: Shape, input_slopes: &mut Vec<f32>) {
    let count = shape.pixels() as f32;
    input_slopes.clear();
    for slope in slopes {
        input_slopes.resize(input_slopes.len() + shape.pixels(), slope / count);
    }
}

/// Images laid flat: one number for each channel and pixel, all images of a number side by side.
pub(super) fn flat(input: &[f32], batch: usize, shape: Shape, output: &mut Vec<f32>) {
    let pixels = shape.pixels();
    output.clear();
    for channel in input.chunks_exact(batch * pixels) {
        for pixel in 0..pixels {
            output.extend((0..batch).map(|image| channel[image * pixels + pixel]));
        }
    }
}
