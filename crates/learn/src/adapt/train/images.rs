//! Image datasets: Fashion-MNIST and MNIST (IDX files, plain or gzip) and CIFAR-10 (binary batches), of any size and subset.

use crate::adapt::network::architecture::InputShape;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where Debian's package `dataset-fashion-mnist` puts its files.
pub const FASHION_MNIST: &str = "/usr/share/datasets/fashion-mnist";
/// The most images of a file.
const IMAGES_MAX: usize = 1_000_000;
/// The longest side of an image.
const SIDE_MAX: usize = 1024;
/// The bytes of a CIFAR-10 image: a label, then 32×32 pixels of three colours.
const CIFAR_ROW: usize = 1 + 3 * 32 * 32;
const CLASSES: usize = 10;

/// A dataset that cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ImagesError {
    #[error(
        "there are no images in `{}`: {wanted}. Fashion-MNIST comes with `apt install dataset-fashion-mnist`",
        folder.display()
    )]
    Missing { folder: PathBuf, wanted: &'static str },
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` is damaged: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("{wanted} images were asked for, but `{}` has {found}", folder.display())]
    TooFew { folder: PathBuf, wanted: usize, found: usize },
}

/// Images with labels. Pixels are from -1 to 1, image by image and colour by colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// The shape of an image.
    pub shape: InputShape,
    /// The pixels of all images.
    pub pixels: Vec<f32>,
    /// The class of each image.
    pub labels: Vec<u8>,
}

/// Images to train on, and images to score by.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// To train on.
    pub train: Images,
    /// To score by.
    pub test: Images,
}

/// How much of a dataset is used, and how large its images are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Portion {
    /// The first images to train on; all where nothing is said.
    pub train: Option<usize>,
    /// The first images to score by; all where nothing is said.
    pub test: Option<usize>,
    /// The side that images are resized to; their own where nothing is said.
    pub side: Option<usize>,
}

impl Dataset {
    /// Reads the folder of a dataset; its kind is told by its files.
    pub fn read(folder: &Path, portion: Portion) -> Result<Self, ImagesError> {
        let (train, test) = if folder.join("data_batch_1.bin").is_file() {
            let names = (1..=5).map(|number| format!("data_batch_{number}.bin")).collect::<Vec<_>>();
            (cifar(folder, &names)?, cifar(folder, &["test_batch.bin".to_owned()])?)
        } else {
            (idx(folder, "train")?, idx(folder, "t10k")?)
        };
        let fit = |images: Images, wanted| images.cut(folder, wanted).map(|images| images.resized(portion.side));
        Ok(Self { train: fit(train, portion.train)?, test: fit(test, portion.test)? })
    }
}

impl Images {
    fn cut(mut self, folder: &Path, wanted: Option<usize>) -> Result<Self, ImagesError> {
        let (wanted, found) = (wanted.unwrap_or(self.labels.len()), self.labels.len());
        if wanted > found || wanted == 0 {
            return Err(ImagesError::TooFew { folder: folder.to_owned(), wanted, found });
        }
        self.labels.truncate(wanted);
        self.pixels.truncate(wanted * self.numbers());
        Ok(self)
    }

    /// Numbers of one image.
    pub fn numbers(&self) -> usize {
        self.shape.channels * self.shape.height * self.shape.width
    }

    /// The images with sides of this length; each pixel is the mean of what it covers.
    fn resized(self, side: Option<usize>) -> Self {
        let Some(side) = side.filter(|side| (*side, *side) != (self.shape.height, self.shape.width)) else { return self };
        let (height, width) = (self.shape.height, self.shape.width);
        let (rows, columns) = (cover(height, side), cover(width, side));
        let mut pixels = Vec::with_capacity(self.labels.len() * self.shape.channels * side * side);
        for plane in self.pixels.chunks_exact(height * width) {
            for row in &rows {
                for column in &columns {
                    let part = |(y, down): &(usize, f32)| {
                        column.iter().map(|(x, across)| down * across * plane[y * width + x]).sum::<f32>()
                    };
                    pixels.push(row.iter().map(part).sum());
                }
            }
        }
        Self { shape: InputShape { height: side, width: side, ..self.shape }, pixels, labels: self.labels }
    }

    /// Some images as a batch that lies channel by channel, and their labels.
    pub fn batch(&self, places: &[usize], batch: &mut Vec<f32>, labels: &mut Vec<u8>) {
        let (numbers, plane) = (self.numbers(), self.shape.height * self.shape.width);
        batch.clear();
        for channel in 0..self.shape.channels {
            for place in places {
                let start = place * numbers + channel * plane;
                batch.extend_from_slice(&self.pixels[start..start + plane]);
            }
        }
        labels.clear();
        labels.extend(places.iter().map(|place| self.labels[*place]));
    }
}

/// For each new pixel, the old pixels that it covers and the weight of each.
fn cover(from: usize, to: usize) -> Vec<Vec<(usize, f32)>> {
    let scale = from as f64 / to as f64;
    let of = |place: usize| {
        let (low, high) = (place as f64 * scale, (place + 1) as f64 * scale);
        let last = (high.ceil() as usize).min(from).max(low as usize + 1);
        let weight = |pixel: usize| ((pixel + 1) as f64).min(high) - (pixel as f64).max(low);
        (low as usize..last).map(|pixel| (pixel, (weight(pixel) / scale) as f32)).collect()
    };
    (0..to).map(of).collect()
}

fn scaled(byte: u8) -> f32 {
    (f32::from(byte) / 255.0 - 0.5) / 0.5
}

fn damaged(path: &Path, problem: impl Into<String>) -> ImagesError {
    ImagesError::Damaged { path: path.to_owned(), problem: problem.into() }
}

/// The bytes of a file, unpacked where its name ends in `.gz`.
fn bytes(path: &Path) -> Result<Vec<u8>, ImagesError> {
    let reading = |source| ImagesError::Read { path: path.to_owned(), source };
    let data = std::fs::read(path).map_err(reading)?;
    if path.extension().is_none_or(|end| end != "gz") {
        return Ok(data);
    }
    let mut unpacked = Vec::new();
    let limit = (IMAGES_MAX * 1024) as u64;
    flate2::read::GzDecoder::new(&data[..])
        .take(limit)
        .read_to_end(&mut unpacked)
        .map_err(|source| damaged(path, format!("not a whole gzip file ({source})")))?;
    Ok(unpacked)
}

/// An IDX file's sizes and bytes.
fn idx_file(folder: &Path, name: &str, dimensions: usize) -> Result<(Vec<usize>, Vec<u8>, PathBuf), ImagesError> {
    let names = [name.to_owned(), format!("{name}.gz"), name.replacen("-idx", ".idx", 1)];
    let Some(path) = names.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
        let wanted = "IDX files (`train-images-idx3-ubyte`, plain or `.gz`) or CIFAR-10's `data_batch_1.bin` are looked for";
        return Err(ImagesError::Missing { folder: folder.to_owned(), wanted });
    };
    let mut data = bytes(&path)?;
    let head = 4 + 4 * dimensions;
    if data.len() < head || data[..3] != [0, 0, 8] || usize::from(data[3]) != dimensions {
        return Err(damaged(&path, format!("it does not begin like an IDX file of bytes with {dimensions} dimensions")));
    }
    let size = |place: usize| u32::from_be_bytes([data[place], data[place + 1], data[place + 2], data[place + 3]]) as usize;
    let sizes = (0..dimensions).map(|number| size(4 + 4 * number)).collect::<Vec<_>>();
    let sound = sizes[1..].iter().all(|side| (1..=SIDE_MAX).contains(side));
    if sizes[0] > IMAGES_MAX || !sound {
        return Err(damaged(&path, format!("it says that it holds {sizes:?} bytes")));
    }
    let wanted = sizes.iter().product::<usize>();
    if data.len() - head != wanted {
        return Err(damaged(&path, format!("its header tells {wanted} bytes of data, but {} follow", data.len() - head)));
    }
    data.drain(..head);
    Ok((sizes, data, path))
}

fn idx(folder: &Path, part: &str) -> Result<Images, ImagesError> {
    let (sizes, pixels, _) = idx_file(folder, &format!("{part}-images-idx3-ubyte"), 3)?;
    let (counts, labels, path) = idx_file(folder, &format!("{part}-labels-idx1-ubyte"), 1)?;
    if counts[0] != sizes[0] {
        return Err(damaged(&path, format!("it has {} labels for {} images", counts[0], sizes[0])));
    }
    check_labels(&labels, &path)?;
    let shape = InputShape { channels: 1, height: sizes[1], width: sizes[2], classes: CLASSES };
    Ok(Images { shape, pixels: pixels.into_iter().map(scaled).collect(), labels })
}

fn check_labels(labels: &[u8], path: &Path) -> Result<(), ImagesError> {
    match labels.iter().position(|label| usize::from(*label) >= CLASSES) {
        Some(place) => Err(damaged(path, format!("image {place} has the label {}; labels are 0 to 9", labels[place]))),
        None => Ok(()),
    }
}

fn cifar(folder: &Path, names: &[String]) -> Result<Images, ImagesError> {
    let mut images = Images { shape: InputShape::CIFAR, pixels: Vec::new(), labels: Vec::new() };
    for name in names {
        let path = folder.join(name);
        let data = bytes(&path)?;
        if data.is_empty() || !data.len().is_multiple_of(CIFAR_ROW) {
            return Err(damaged(&path, format!("{} bytes are no whole number of images of {CIFAR_ROW} bytes", data.len())));
        }
        let labels = data.chunks_exact(CIFAR_ROW).map(|row| row[0]).collect::<Vec<_>>();
        check_labels(&labels, &path)?;
        images.labels.extend(labels);
        images.pixels.extend(data.chunks_exact(CIFAR_ROW).flat_map(|row| row[1..].iter().copied().map(scaled)));
    }
    Ok(images)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn idx_bytes(sizes: &[usize], data: &[u8]) -> Vec<u8> {
        let head = [0, 0, 8, sizes.len() as u8].into_iter().chain(sizes.iter().flat_map(|size| (*size as u32).to_be_bytes()));
        head.chain(data.iter().copied()).collect()
    }

    /// A folder of small images: the class of an image is which of its parts is bright.
    pub(crate) fn folder(images: usize, side: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for part in ["train", "t10k"] {
            let labels = (0..images).map(|image| (image % 4) as u8).collect::<Vec<_>>();
            let mut pixels = Vec::new();
            for (image, label) in labels.iter().enumerate() {
                for place in 0..side * side {
                    let bright = (place / side < side / 2) == (label % 2 == 0) && (place % side < side / 2) == (label / 2 == 0);
                    pixels.push(if bright { 200 } else { 20 + ((image * 31 + place * 17) % 60) as u8 });
                }
            }
            let write = |name: String, data: Vec<u8>| std::fs::write(folder.path().join(name), data).unwrap();
            write(format!("{part}-images-idx3-ubyte"), idx_bytes(&[images, side, side], &pixels));
            write(format!("{part}-labels-idx1-ubyte"), idx_bytes(&[images], &labels));
        }
        folder
    }

    #[test]
    fn images_are_read_cut_and_resized() {
        let folder = folder(8, 4);
        let portion = Portion { train: Some(6), test: None, side: Some(2) };
        let dataset = Dataset::read(folder.path(), portion).unwrap();
        assert_eq!((dataset.train.labels.len(), dataset.test.labels.len()), (6, 8));
        assert_eq!(dataset.train.pixels.len(), 6 * 4);
        // Image 0 is bright in its upper left quarter, which is its first pixel now.
        assert!((dataset.train.pixels[0] - scaled(200)).abs() < 1e-6);
        let (mut batch, mut labels) = (Vec::new(), Vec::new());
        dataset.train.batch(&[1, 0], &mut batch, &mut labels);
        assert_eq!((labels, batch[4].to_bits()), (vec![1, 0], dataset.train.pixels[0].to_bits()));
    }

    #[test]
    fn damaged_datasets_are_told() {
        let damage = |name: &str, data: &[u8]| {
            let folder = folder(8, 4);
            std::fs::write(folder.path().join(name), data).unwrap();
            Dataset::read(folder.path(), Portion::default()).unwrap_err().to_string()
        };
        let images = "train-images-idx3-ubyte";
        assert!(damage(images, b"PNG").contains("does not begin like an IDX file"));
        let short = idx_bytes(&[8, 4, 4], &[0; 100]);
        assert!(damage(images, &short).contains("tells 128 bytes of data, but 100 follow"));
        assert!(damage("t10k-labels-idx1-ubyte", &idx_bytes(&[8], &[11; 8])).contains("has the label 11"));
        assert!(damage("t10k-labels-idx1-ubyte", &idx_bytes(&[7], &[1; 7])).contains("7 labels for 8 images"));
        assert!(damage("data_batch_1.bin", &[0; 100]).contains("no whole number of images"));
        let empty = tempfile::tempdir().unwrap();
        let error = Dataset::read(empty.path(), Portion::default()).unwrap_err().to_string();
        assert!(error.contains("apt install dataset-fashion-mnist"), "{error}");
        std::fs::write(empty.path().join("train-images-idx3-ubyte.gz"), b"not gzip").unwrap();
        let error = Dataset::read(empty.path(), Portion::default()).unwrap_err().to_string();
        assert!(error.contains("not a whole gzip file"), "{error}");
        let folder = folder(8, 4);
        let error = Dataset::read(folder.path(), Portion { train: Some(9), ..Portion::default() }).unwrap_err().to_string();
        assert!(error.contains("9 images were asked for"), "{error}");
    }
}
