//! The sums behind a convolution of 3×3. Images stand in *planes*, one behind another, with zeros around them, so that a place of the
//! kernel is one shift for all pixels of all images: an output is a sum of shifted planes, and nothing is laid out a second time. The
//! zeros at the right of a row are those at the left of the next one, and those below an image are those above the next one. Sums at
//! places between images are computed too, and not read.
//!
//! Both sums are written twice: plainly, and for processors with AVX2 and FMA, with the sums of a tile in registers. They differ by
//! rounding.

use super::stack::Shape;

/// Places of the kernel.
pub(super) const KERNEL: usize = 9;
/// Channels whose sums are kept at once.
const ROWS: usize = 4;
/// Numbers in a register, and pixels of a tile.
const LANES: usize = 8;
const TILE: usize = 2 * LANES;

/// Planes of several channels, all of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Planes {
    data: Vec<f32>,
    /// Numbers from one channel to the next.
    stride: usize,
    /// How the images stand that were copied here last: the zeros around them are in place.
    filled: Option<(Geometry, usize, usize)>,
}

/// The planes that a convolution works with. What they hold is of no use after a call; they are kept for their memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workbench {
    /// What goes in.
    pub(super) input: Planes,
    /// The slopes of what came out.
    pub(super) slopes: Planes,
    /// What was summed last.
    pub(super) summed: Planes,
}

/// How images stand in planes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Geometry {
    /// Pixels of an image that are read or written.
    inner: Shape,
    /// Zeros around them, above and at the left.
    border: usize,
    /// Length of a row of the plane.
    row: usize,
    /// Pixels of one image in the plane, with its border.
    pub(super) plane: usize,
}

impl Geometry {
    /// Images of this shape with so many zeros around them.
    pub(super) fn new(inner: Shape, padding: usize) -> Self {
        let row = inner.width + padding;
        Self { inner, border: padding, row, plane: row * (inner.height + padding) }
    }

    /// Smaller images in planes of the same size, at the upper left.
    pub(super) fn holding(self, inner: Shape) -> Self {
        Self { inner, border: 0, ..self }
    }

    /// How far each place of the kernel is from the pixel that it adds to.
    fn shifts(self) -> [usize; KERNEL] {
        std::array::from_fn(|place| place / 3 * self.row + place % 3)
    }

    /// The longest shift.
    fn lead(self) -> usize {
        2 * self.row + 2
    }

    /// Where a row of an image stands in its plane.
    fn place(self, image: usize, row: usize) -> usize {
        image * self.plane + (row + self.border) * self.row + self.border
    }
}

impl Planes {
    /// Makes room for so many channels, with room behind for the last tile and its shifts. What stands there stays.
    fn make_room(&mut self, channels: usize, geometry: Geometry, images: usize) {
        self.stride = geometry.lead() + (images * geometry.plane).next_multiple_of(TILE) + geometry.lead();
        self.data.resize(channels * self.stride, 0.0);
    }

    fn channel(&self, channel: usize) -> &[f32] {
        &self.data[channel * self.stride..(channel + 1) * self.stride]
    }

    /// Copies images into planes. `from` holds all images of the batch, channel by channel; the numbers begin `lead` places later.
    fn fill(&mut self, from: &[f32], batch: usize, images: std::ops::Range<usize>, geometry: Geometry, lead: usize) {
        let Shape { channels, height, width } = geometry.inner;
        self.make_room(channels, geometry, images.len());
        let filled = Some((geometry, images.len(), lead));
        if self.filled != filled {
            self.data.fill(0.0);
            self.filled = filled;
        }
        for channel in 0..channels {
            let target = &mut self.data[channel * self.stride + lead..(channel + 1) * self.stride];
            for (place, image) in images.clone().enumerate() {
                let source = &from[(channel * batch + image) * height * width..][..height * width];
                for (row, numbers) in source.chunks_exact(width.max(1)).enumerate() {
                    target[geometry.place(place, row)..][..width].copy_from_slice(numbers);
                }
            }
        }
    }

    /// Images as they are read.
    pub(super) fn read(&mut self, from: &[f32], batch: usize, images: std::ops::Range<usize>, geometry: Geometry) {
        self.fill(from, batch, images, geometry, 0);
    }

    /// Slopes of what came out, moved by the longest shift, so that shifts back are shifts forward.
    pub(super) fn read_back(&mut self, from: &[f32], batch: usize, images: std::ops::Range<usize>, geometry: Geometry) {
        self.fill(from, batch, images, geometry, geometry.lead());
    }

    /// Copies images out of planes, each channel with a number added.
    pub(super) fn write(
        &self,
        to: &mut [f32],
        batch: usize,
        images: std::ops::Range<usize>,
        geometry: Geometry,
        added: impl Fn(usize) -> f32,
    ) {
        let Shape { channels, height, width } = geometry.inner;
        for channel in 0..channels {
            let (source, more) = (self.channel(channel), added(channel));
            for (place, image) in images.clone().enumerate() {
                let target = &mut to[(channel * batch + image) * height * width..][..height * width];
                for (row, numbers) in target.chunks_exact_mut(width.max(1)).enumerate() {
                    let own = &source[geometry.place(place, row)..][..width];
                    numbers.iter_mut().zip(own).for_each(|(number, own)| *number = own + more);
                }
            }
        }
    }

    /// Sets each of `outputs` planes to the sum of all shifted planes of `input` by their weights. `packed` has the weights of four
    /// outputs side by side ([`pack`]).
    pub(super) fn correlate(&mut self, input: &Self, packed: &[f32], outputs: usize, images: usize, geometry: Geometry) {
        self.make_room(outputs.next_multiple_of(ROWS), geometry, images);
        self.filled = None;
        let sum = Sum { shifts: geometry.shifts(), inputs: packed.len() / (KERNEL * outputs.next_multiple_of(ROWS)), packed };
        let positions = (images * geometry.plane).next_multiple_of(TILE);
        #[cfg(target_arch = "x86_64")]
        if wide::is_there() {
            // SAFETY: `wide::correlate` needs AVX2 and FMA and nothing else, and the processor has just said that it has them.
            #[expect(unsafe_code, reason = "a function for AVX2 may only be called where there is AVX2")]
            unsafe {
                wide::correlate(self, input, &sum, positions);
            }
            return;
        }
        correlate_plainly(self, input, &sum, positions);
    }
}

/// What is summed: the shifts of the kernel's places, and the weights of each.
struct Sum<'a> {
    shifts: [usize; KERNEL],
    inputs: usize,
    packed: &'a [f32],
}

impl Sum<'_> {
    /// The weights from an input channel to a group of outputs, place by place.
    fn weights(&self, group: usize, input: usize) -> &[f32] {
        &self.packed[(group * self.inputs + input) * KERNEL * ROWS..][..KERNEL * ROWS]
    }
}

fn correlate_plainly(output: &mut Planes, input: &Planes, sum: &Sum<'_>, positions: usize) {
    for (channel, target) in output.data.chunks_exact_mut(output.stride).enumerate() {
        target.fill(0.0);
        for source in 0..sum.inputs {
            let weights = sum.weights(channel / ROWS, source);
            for (place, shift) in sum.shifts.iter().enumerate() {
                let weight = weights[place * ROWS + channel % ROWS];
                let read = &input.channel(source)[*shift..shift + positions];
                target[..positions].iter_mut().zip(read).for_each(|(target, read)| *target += weight * read);
            }
        }
    }
}

/// Weights for [`Planes::correlate`]: those of four outputs side by side, for each input and each place of the kernel.
pub(super) fn pack(inputs: usize, outputs: usize, weight: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
    let mut packed = Vec::with_capacity(outputs.next_multiple_of(ROWS) * inputs * KERNEL);
    for group in (0..outputs).step_by(ROWS) {
        for input in 0..inputs {
            for place in 0..KERNEL {
                let of = |output: usize| if output < outputs { weight(output, input, place) } else { 0.0 };
                packed.extend((group..group + ROWS).map(of));
            }
        }
    }
    packed
}

/// Adds to `gradient` (outputs × inputs × 9) the products of slopes, as [`Planes::read_back`] has them, and shifted inputs.
pub(super) fn add_products(
    gradient: &mut [f32],
    slopes: &Planes,
    input: &Planes,
    (outputs, inputs): (usize, usize),
    images: usize,
    geometry: Geometry,
) {
    let length = (images * geometry.plane).next_multiple_of(LANES);
    let lead = geometry.lead();
    for first in (0..outputs).step_by(ROWS) {
        // Behind the last output its own slopes stand in for those that are not there; their products are not kept.
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &slopes.channel((first + row).min(outputs - 1))[lead..lead + length]);
        for channel in 0..inputs {
            let plane = input.channel(channel);
            for down in 0..3 {
                let shifted: [&[f32]; 3] = std::array::from_fn(|across| &plane[down * geometry.row + across..][..length]);
                let products = products(rows, shifted);
                for (row, products) in products.iter().enumerate().take(outputs - first) {
                    let target = &mut gradient[((first + row) * inputs + channel) * KERNEL + 3 * down..][..3];
                    target.iter_mut().zip(products).for_each(|(target, product)| *target += product);
                }
            }
        }
    }
}

/// The sum of products of each row with each of three stretches.
fn products(rows: [&[f32]; ROWS], shifted: [&[f32]; 3]) -> [[f32; 3]; ROWS] {
    #[cfg(target_arch = "x86_64")]
    if wide::is_there() {
        // SAFETY: `wide::products` needs AVX2 and FMA and nothing else, and the processor has just said that it has them.
        #[expect(unsafe_code, reason = "a function for AVX2 may only be called where there is AVX2")]
        return unsafe { wide::products(rows, shifted) };
    }
    products_plainly(rows, shifted)
}

fn products_plainly(rows: [&[f32]; ROWS], shifted: [&[f32]; 3]) -> [[f32; 3]; ROWS] {
    rows.map(|row| shifted.map(|other| row.iter().zip(other).map(|(one, other)| one * other).sum()))
}

/// The same sums for AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{KERNEL, LANES, Planes, ROWS, Sum, TILE};
    use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps};

    /// Whether the processor has what these functions need.
    pub(super) fn is_there() -> bool {
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load(numbers: &[f32]) -> __m256 {
        let numbers = &numbers[..LANES];
        // SAFETY: the slice has the eight numbers that are read.
        #[expect(unsafe_code, reason = "registers are read from pointers")]
        unsafe {
            _mm256_loadu_ps(numbers.as_ptr())
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn store(numbers: &mut [f32], register: __m256) {
        let numbers = &mut numbers[..LANES];
        // SAFETY: the slice has the eight numbers that are written.
        #[expect(unsafe_code, reason = "registers are written to pointers")]
        unsafe {
            _mm256_storeu_ps(numbers.as_mut_ptr(), register);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn correlate(output: &mut Planes, input: &Planes, sum: &Sum<'_>, positions: usize) {
        let groups = output.data.len() / (output.stride * ROWS);
        for at in (0..positions).step_by(TILE) {
            for group in 0..groups {
                let tile = tile(input, sum, group, at);
                for (row, registers) in tile.iter().enumerate() {
                    let target = &mut output.data[(group * ROWS + row) * output.stride + at..][..TILE];
                    for (place, register) in registers.iter().enumerate() {
                        store(&mut target[place * LANES..], *register);
                    }
                }
            }
        }
    }

    /// The sums of four outputs at 16 places. More of them would not stay in registers.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn tile(input: &Planes, sum: &Sum<'_>, group: usize, at: usize) -> [[__m256; 2]; ROWS] {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        for channel in 0..sum.inputs {
            let plane = &input.data[channel * input.stride + at..];
            let weights = sum.weights(group, channel);
            for place in 0..KERNEL {
                let read = &plane[sum.shifts[place]..][..TILE];
                let read = [load(read), load(&read[LANES..])];
                for row in 0..ROWS {
                    let weight = _mm256_set1_ps(weights[place * ROWS + row]);
                    for register in 0..2 {
                        sums[row][register] = _mm256_fmadd_ps(weight, read[register], sums[row][register]);
                    }
                }
            }
        }
        sums
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn products(rows: [&[f32]; ROWS], [left, middle, right]: [&[f32]; 3]) -> [[f32; 3]; ROWS] {
        let [first, second, third, fourth] = rows;
        // Slices of one known length need no further check of bounds.
        let length = first.len();
        let (second, third, fourth) = (&second[..length], &third[..length], &fourth[..length]);
        let (left, middle, right) = (&left[..length], &middle[..length], &right[..length]);
        let mut sums = [[_mm256_setzero_ps(); 3]; ROWS];
        let mut at = 0;
        while at + LANES <= length {
            let shifted = [load(&left[at..]), load(&middle[at..]), load(&right[at..])];
            let rows = [load(&first[at..]), load(&second[at..]), load(&third[at..]), load(&fourth[at..])];
            for (sums, row) in sums.iter_mut().zip(rows) {
                for (sum, other) in sums.iter_mut().zip(shifted) {
                    *sum = _mm256_fmadd_ps(row, other, *sum);
                }
            }
            at += LANES;
        }
        let mut products = [[0.0; 3]; ROWS];
        for (products, sums) in products.iter_mut().zip(sums) {
            for (product, sum) in products.iter_mut().zip(sums) {
                let mut lanes = [0.0; LANES];
                store(&mut lanes, sum);
                *product = lanes.iter().sum();
            }
        }
        products
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::noise;

    #[test]
    fn plain_and_wide_sums_are_alike() {
        let mut draw = noise(4);
        let (inputs, outputs, batch) = (3, 6, 5);
        let shape = Shape { channels: inputs, height: 7, width: 5 };
        let geometry = Geometry::new(shape, 1);
        let images = (0..inputs * batch * shape.pixels()).map(|_| draw()).collect::<Vec<_>>();
        let weights = (0..inputs * outputs * KERNEL).map(|_| draw()).collect::<Vec<_>>();
        let packed = pack(inputs, outputs, |output, input, place| weights[(output * inputs + input) * KERNEL + place]);
        let (mut planes, mut fast, mut plain) = (Planes::default(), Planes::default(), Planes::default());
        planes.read(&images, batch, 1..4, geometry);
        fast.correlate(&planes, &packed, outputs, 3, geometry);
        plain.make_room(8, geometry, 3);
        let sum = Sum { shifts: geometry.shifts(), inputs, packed: &packed };
        correlate_plainly(&mut plain, &planes, &sum, (3 * geometry.plane).next_multiple_of(TILE));
        assert_eq!(fast.data.len(), plain.data.len());
        let alike = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
        assert!(fast.data.iter().zip(&plain.data).all(alike));
        // Planes that held something else before give the same.
        fast.read(&images, batch, 0..2, geometry);
        fast.correlate(&planes, &packed, outputs, 3, geometry);
        let ends = |planes: &Planes| planes.stride - 2 * geometry.lead();
        for channel in 0..outputs {
            let (one, other) = (&fast.channel(channel)[..ends(&fast)], &plain.channel(channel)[..ends(&plain)]);
            assert!(one.iter().zip(other).all(alike));
        }
        let rows = [0, 1, 2, 1].map(|channel| &planes.channel(channel)[..64]);
        let shifted = [0, 1, 2].map(|shift| &planes.channel(1)[shift..shift + 64]);
        let (fast, plain) = (products(rows, shifted), products_plainly(rows, shifted));
        assert!(fast.iter().flatten().zip(plain.iter().flatten()).all(alike));
    }
}
