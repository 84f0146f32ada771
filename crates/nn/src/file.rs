//! Networks as safetensors files: `NAME.LAYER.weight` (outputs × inputs, as `PyTorch` keeps them) and `NAME.LAYER.bias`, with words about
//! them in the header. A file is read with every size checked against limits before anything is made from it.

use crate::network::{Activation, BadSizes, LAYERS_MAX, Network};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;

/// The largest file read.
const BYTES_MAX: usize = 64 << 20;

/// A file that holds no networks Rota can use.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Larger than any network of ours.
    #[error("the file has {0} bytes; at most {BYTES_MAX} are read")]
    TooLarge(usize),
    /// Not safetensors, or cut short.
    #[error("not a safetensors file, or damaged: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// A tensor is not there.
    #[error("the file has no tensor `{0}`")]
    Missing(String),
    /// A tensor has another shape or type than the layers around it need.
    #[error("tensor `{name}`: {problem}")]
    Shape {
        /// The tensor's name in the file.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A number that is none.
    #[error("tensor `{0}` holds a value that is no finite number")]
    NotFinite(String),
    /// Layers too wide or too many.
    #[error(transparent)]
    Sizes(#[from] BadSizes),
}

/// Networks by name, with the words of the header.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Words about the networks.
    pub words: HashMap<String, String>,
    /// The networks, with their names.
    pub networks: Vec<(String, Network)>,
}

/// The bytes of a file. The same networks and words give the same bytes.
pub fn write(stored: &Stored) -> Result<Vec<u8>, FileError> {
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, network) in &stored.networks {
        for layer in 0..network.sizes().len() - 1 {
            let (weights, biases) = network.layer_ranges(layer);
            let (from, to) = (network.sizes()[layer], network.sizes()[layer + 1]);
            let weights = &network.parameters()[weights];
            let turned = (0..to).flat_map(|output| (0..from).map(move |input| weights[input * to + output]));
            tensors.push((format!("{name}.{layer}.weight"), vec![to, from], bytes(turned)));
            tensors.push((format!("{name}.{layer}.bias"), vec![to], bytes(network.parameters()[biases].iter().copied())));
        }
    }
    let views = tensors
        .iter()
        .map(|(name, shape, data)| Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect::<Result<Vec<_>, FileError>>()?;
    Ok(safetensors::serialize(views, Some(stored.words.clone()))?)
}

fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// Reads the networks with these names; those marked as optional may be missing. `activation` finds the bend from the words.
pub fn read(
    data: &[u8],
    names: &[(&str, bool)],
    activation: impl FnOnce(&HashMap<String, String>) -> Activation,
) -> Result<Stored, FileError> {
    if data.len() > BYTES_MAX {
        return Err(FileError::TooLarge(data.len()));
    }
    let (_, header) = SafeTensors::read_metadata(data)?;
    let words = header.metadata().clone().unwrap_or_default();
    let activation = activation(&words);
    let file = SafeTensors::deserialize(data)?;
    let mut networks = Vec::new();
    for &(name, required) in names {
        if required || file.tensor(&format!("{name}.0.weight")).is_ok() {
            networks.push((name.to_owned(), network(&file, name, activation)?));
        }
    }
    Ok(Stored { words, networks })
}

fn network(file: &SafeTensors<'_>, name: &str, activation: Activation) -> Result<Network, FileError> {
    let mut sizes: Vec<usize> = Vec::new();
    let mut layers = Vec::new();
    for layer in 0..LAYERS_MAX {
        let weight_name = format!("{name}.{layer}.weight");
        let Ok(weight) = file.tensor(&weight_name) else { break };
        let &[to, from] = weight.shape() else {
            let problem = format!("has {} dimensions; a layer's weights have 2", weight.shape().len());
            return Err(FileError::Shape { name: weight_name, problem });
        };
        match sizes.last() {
            Some(&before) if before != from => {
                let problem = format!("takes {from} inputs, but the layer before gives {before}");
                return Err(FileError::Shape { name: weight_name, problem });
            }
            Some(_) => {}
            None => sizes.push(from),
        }
        sizes.push(to);
        let bias_name = format!("{name}.{layer}.bias");
        let bias = file.tensor(&bias_name).map_err(|_| FileError::Missing(bias_name.clone()))?;
        if bias.shape() != [to] {
            let problem = format!("has shape {:?}; the layer has {to} outputs", bias.shape());
            return Err(FileError::Shape { name: bias_name, problem });
        }
        layers.push((numbers(&weight, weight_name)?, numbers(&bias, bias_name)?));
    }
    if layers.is_empty() {
        return Err(FileError::Missing(format!("{name}.0.weight")));
    }
    let mut network = Network::zero(&sizes, activation)?;
    for (layer, (weights, biases)) in layers.into_iter().enumerate() {
        let (weight_range, bias_range) = network.layer_ranges(layer);
        let (from, to) = (sizes[layer], sizes[layer + 1]);
        let target = &mut network.parameters_mut()[weight_range];
        for (output, row) in weights.chunks_exact(from).enumerate() {
            row.iter().enumerate().for_each(|(input, weight)| target[input * to + output] = *weight);
        }
        network.parameters_mut()[bias_range].copy_from_slice(&biases);
    }
    Ok(network)
}

fn numbers(tensor: &TensorView<'_>, name: String) -> Result<Vec<f32>, FileError> {
    if tensor.dtype() != Dtype::F32 {
        return Err(FileError::Shape { name, problem: format!("holds {:?}; 32-bit floats are read", tensor.dtype()) });
    }
    let read = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let values = tensor.data().chunks_exact(4).map(read).collect::<Vec<_>>();
    if values.iter().all(|value| value.is_finite()) { Ok(values) } else { Err(FileError::NotFinite(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored() -> Stored {
        let mut count = 0.0;
        let mut draw = || {
            count += 0.25;
            count
        };
        let network = Network::random(&[3, 4, 1], Activation::Tanh, 1.0, &mut draw).unwrap();
        Stored { words: HashMap::from([("version".to_owned(), "1".to_owned())]), networks: vec![("score".to_owned(), network)] }
    }

    fn read_score(data: &[u8]) -> Result<Stored, FileError> {
        read(data, &[("score", true), ("value", false)], |_| Activation::Tanh)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let back = read_score(&write(&stored()).unwrap()).unwrap();
        assert_eq!(back.networks, stored().networks);
        assert_eq!(back.words, stored().words);
    }

    #[test]
    fn a_value_that_is_no_number_is_refused() {
        let mut broken = stored();
        broken.networks[0].1.parameters_mut()[1] = f32::NAN;
        let message = read_score(&write(&broken).unwrap()).unwrap_err().to_string();
        assert_eq!(message, "tensor `score.0.weight` holds a value that is no finite number");
    }

    #[test]
    fn a_file_without_the_network_is_refused() {
        let mut other = stored();
        other.networks[0].0 = "another".to_owned();
        assert_eq!(read_score(&write(&other).unwrap()).unwrap_err().to_string(), "the file has no tensor `score.0.weight`");
    }

    proptest! {
        #[test]
        fn a_damaged_file_never_panics(cut in 0_usize..600, position in 0_usize..600, value in any::<u8>()) {
            let mut data = write(&stored()).unwrap();
            let position = position % data.len();
            data[position] = value;
            data.truncate(data.len().saturating_sub(cut));
            let _ = read_score(&data);
        }

        #[test]
        fn any_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_score(&data).is_err());
        }
    }
}
