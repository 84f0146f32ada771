//! Networks as safetensors files: every tensor under its stage and layer, and the structure in the header, so that a grown network can be
//! built again.

use crate::adapt::network::architecture::Architecture;
use crate::adapt::network::growing::{GrowingNetwork, SurgeryError};
use rota_core::random::RandomStream;
use rota_nn::layers::Layer;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;

/// The header's word for the structure.
const STRUCTURE: &str = "architecture";
/// The largest file read.
const BYTES_MAX: usize = 256 << 20;
/// The most numbers of a network that is read.
const PARAMETERS_MAX: usize = 64 << 20;

/// A file that holds no network.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum WeightsError {
    #[error("the file is larger than any network of ours")]
    TooLarge,
    #[error("not a safetensors file, or damaged: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    #[error("the header does not tell the network's structure: {0}")]
    Structure(String),
    #[error("the file has no tensor `{0}`")]
    Missing(String),
    #[error("tensor `{name}` has {found} numbers of type {kind:?}; the network has {wanted} of F32")]
    Shape { name: String, kind: Dtype, found: usize, wanted: usize },
    #[error("tensor `{0}` holds a value that is no finite number")]
    NotFinite(String),
    #[error(transparent)]
    Network(#[from] SurgeryError),
}

/// The tensors of a network by name, to be read.
fn tensors(network: &GrowingNetwork) -> Vec<(String, Vec<usize>, &Vec<f32>)> {
    let mut tensors = Vec::new();
    for (number, stage) in network.architecture.stages.iter().enumerate() {
        let first = network.first_layer(number);
        for offset in 0..stage.leaves.len() {
            let layer = &network.stack.layers[first + offset];
            for (part, parameter) in layer.parameters() {
                let shape = match (layer, part) {
                    (Layer::Convolution(layer), "weight") => vec![layer.outputs, layer.inputs, 3, 3],
                    (Layer::Linear(layer), "weight") => vec![layer.outputs, layer.inputs],
                    _ => vec![parameter.values.len()],
                };
                tensors.push((format!("stages.{number}.{offset}.{part}"), shape, &parameter.values));
            }
            if let Layer::BatchNorm(layer) = layer {
                for (part, values) in [("running_mean", &layer.running_mean), ("running_var", &layer.running_variance)] {
                    tensors.push((format!("stages.{number}.{offset}.{part}"), vec![values.len()], values));
                }
            }
        }
    }
    tensors
}

/// The bytes of a file. The same network gives the same bytes.
pub fn write_weights(network: &GrowingNetwork) -> Result<Vec<u8>, WeightsError> {
    let structure = serde_json::to_string(&network.architecture).map_err(|error| WeightsError::Structure(error.to_string()))?;
    let data = tensors(network)
        .into_iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()));
    let data = data.collect::<Vec<_>>();
    let views = data.iter().map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)));
    let words = HashMap::from([(STRUCTURE.to_owned(), structure)]);
    Ok(safetensors::serialize(views.collect::<Result<Vec<_>, WeightsError>>()?, Some(words))?)
}

/// Reads a network; its optimiser is empty.
pub fn read_weights(data: &[u8]) -> Result<GrowingNetwork, WeightsError> {
    if data.len() > BYTES_MAX {
        return Err(WeightsError::TooLarge);
    }
    let (_, header) = SafeTensors::read_metadata(data)?;
    let words = header.metadata().clone().unwrap_or_default();
    let structure = words.get(STRUCTURE).ok_or_else(|| WeightsError::Structure(format!("no `{STRUCTURE}`")))?;
    let wrong = |error: serde_json::Error| WeightsError::Structure(error.to_string());
    let architecture = serde_json::from_str::<Architecture>(structure).map_err(wrong)?;
    let whole = !architecture.stages.is_empty() && architecture.stages.iter().all(|stage| !stage.leaves.is_empty());
    let sizes = architecture.leaves().try_fold(0_usize, |sum, leaf| sum.checked_add(leaf.parameters()));
    if !whole || sizes.is_none_or(|sum| sum > PARAMETERS_MAX) {
        return Err(WeightsError::Structure("an empty stage, or more parameters than are read".to_owned()));
    }
    let mut network = GrowingNetwork::random(architecture, &mut RandomStream::new(0, "weights"))?;
    let file = SafeTensors::deserialize(data)?;
    let mut read = HashMap::new();
    for (name, _, values) in tensors(&network) {
        let view = file.tensor(&name).map_err(|_| WeightsError::Missing(name.clone()))?;
        let (found, wanted) = (view.shape().iter().product(), values.len());
        if view.dtype() != Dtype::F32 || found != wanted {
            return Err(WeightsError::Shape { name, kind: view.dtype(), found, wanted });
        }
        let numbers = view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let numbers = numbers.collect::<Vec<_>>();
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(WeightsError::NotFinite(name));
        }
        read.insert(name, numbers);
    }
    for number in 0..network.architecture.stages.len() {
        let first = network.first_layer(number);
        for offset in 0..network.architecture.stages[number].leaves.len() {
            let mut take = |part: &str| read.remove(&format!("stages.{number}.{offset}.{part}")).unwrap_or_default();
            let layer = &mut network.stack.layers[first + offset];
            if let Layer::BatchNorm(layer) = layer {
                (layer.running_mean, layer.running_variance) = (take("running_mean"), take("running_var"));
            }
            for (part, parameter) in ["weight", "bias"].into_iter().zip(layer.parameters_mut()) {
                parameter.values = take(part);
            }
        }
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{FinalRelu, InputShape, ModelKind};
    use crate::adapt::network::growing::Calibration;
    use rota_nn::layers::Mode;

    #[test]
    fn a_grown_network_is_read_back_and_damage_is_told() {
        let input = InputShape { channels: 1, height: 10, width: 10, classes: 10 };
        let architecture = Architecture::new(ModelKind::ConvNet2, input, FinalRelu::Dropped).unwrap();
        let mut network = GrowingNetwork::random(architecture, &mut RandomStream::new(5, "test")).unwrap();
        let images = (0..400).map(|place| (place % 7) as f32).collect::<Vec<_>>();
        network.deepen(1, Calibration::Batch(&images, 4)).unwrap();
        let data = write_weights(&network).unwrap();
        let mut back = read_weights(&data).unwrap();
        assert_eq!(back.architecture, network.architecture);
        assert_eq!(back.stack.forward(&images, 4, Mode::Evaluate), network.stack.forward(&images, 4, Mode::Evaluate));
        assert!(read_weights(&data[..data.len() / 2]).unwrap_err().to_string().contains("damaged"));
        assert!(read_weights(b"").is_err());
        let mut nan = data.clone();
        let end = nan.len();
        nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(read_weights(&nan).unwrap_err().to_string().contains("no finite number"));
    }
}
