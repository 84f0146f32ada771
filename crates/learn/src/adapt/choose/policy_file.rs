//! Policy networks as safetensors files, with `PyTorch`'s names and shapes, so that the study's policies can be read and ours used there.

use crate::adapt::choose::policy::{LSTMS, PolicyNetwork, lstm_ranges};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::ops::Range;

/// The largest file read.
const BYTES_MAX: usize = 16 << 20;
/// The most actions of a policy.
const ACTIONS_MAX: usize = 64;

/// A file that holds no policy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyFileError {
    #[error("the file has {0} bytes; a policy has at most {BYTES_MAX}")]
    TooLarge(usize),
    #[error("not a safetensors file, or damaged: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    #[error("the file has no tensor `{0}`")]
    Missing(String),
    #[error("tensor `{name}` is {kind:?} {shape:?}; a policy has F32 {wanted:?} there")]
    Shape { name: String, kind: Dtype, shape: Vec<usize>, wanted: Vec<usize> },
    #[error("tensor `{0}` holds a value that is no finite number")]
    NotFinite(String),
}

/// One tensor: its name, its place among the parameters, and its size (outputs, inputs); a bias has no inputs.
struct Place {
    name: String,
    range: Range<usize>,
    outputs: usize,
    inputs: Option<usize>,
}

fn places(network: &PolicyNetwork) -> Vec<Place> {
    let mut places = Vec::new();
    let names = [("encoder.encoder", ""), ("encoder.encoder", "_reverse"), ("decider.lstm", "")];
    for ((lstm, range), (name, end)) in LSTMS.iter().zip(lstm_ranges()).zip(names) {
        let parts = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"];
        let inputs = [Some(lstm.inputs), Some(lstm.hidden), None, None];
        for ((part, own), inputs) in parts.into_iter().zip(lstm.ranges()).zip(inputs) {
            let range = own.start + range.start..own.end + range.start;
            places.push(Place { name: format!("{name}.{part}_l0{end}"), range, outputs: 4 * lstm.hidden, inputs });
        }
    }
    for (number, (layer, range)) in network.dense().into_iter().enumerate() {
        let inputs = [Some(layer.inputs), None];
        for ((part, own), inputs) in ["weight", "bias"].into_iter().zip(layer.ranges()).zip(inputs) {
            let range = own.start + range.start..own.end + range.start;
            places.push(Place { name: format!("decider.linear{}.{part}", number + 1), range, outputs: layer.outputs, inputs });
        }
    }
    places
}

/// The bytes of a file. The same policy and words give the same bytes.
pub fn write_policy(
    network: &PolicyNetwork,
    words: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<u8>, PolicyFileError> {
    let tensors = places(network).into_iter().map(|place| {
        let values = &network.parameters()[place.range];
        let outputs = place.outputs;
        let (shape, turned) = match place.inputs {
            Some(inputs) => {
                let turned = (0..outputs).flat_map(|output| (0..inputs).map(move |input| values[input * outputs + output]));
                (vec![outputs, inputs], turned.collect())
            }
            None => (vec![outputs], values.to_vec()),
        };
        (place.name, shape, turned.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
    });
    let tensors = tensors.collect::<Vec<_>>();
    let views = tensors.iter().map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)));
    Ok(safetensors::serialize(views.collect::<Result<Vec<_>, PolicyFileError>>()?, Some(words.into_iter().collect()))?)
}

/// Reads a policy and the words about it. Tensors that a policy does not have, such as a table of vectors, are not looked at.
pub fn read_policy(data: &[u8]) -> Result<(PolicyNetwork, HashMap<String, String>), PolicyFileError> {
    if data.len() > BYTES_MAX {
        return Err(PolicyFileError::TooLarge(data.len()));
    }
    let (_, header) = SafeTensors::read_metadata(data)?;
    let file = SafeTensors::deserialize(data)?;
    let tensor = |name: &str| file.tensor(name).map_err(|_| PolicyFileError::Missing(name.to_owned()));
    let last = tensor("decider.linear3.bias")?;
    let actions = last.shape().first().copied().filter(|actions| (1..=ACTIONS_MAX).contains(actions)).unwrap_or(1);
    let mut network = PolicyNetwork::zero(actions);
    for place in places(&network) {
        let view = tensor(&place.name)?;
        let wanted = std::iter::once(place.outputs).chain(place.inputs).collect::<Vec<_>>();
        if view.dtype() != Dtype::F32 || view.shape() != wanted {
            let (kind, shape) = (view.dtype(), view.shape().to_vec());
            return Err(PolicyFileError::Shape { name: place.name, kind, shape, wanted });
        }
        let target = &mut network.parameters_mut()[place.range];
        let inputs = place.inputs.unwrap_or(1);
        for (number, bytes) in view.data().chunks_exact(4).enumerate() {
            let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if !value.is_finite() {
                return Err(PolicyFileError::NotFinite(place.name));
            }
            target[number % inputs * place.outputs + number / inputs] = value;
        }
    }
    Ok((network, header.metadata().clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::random::RandomStream;

    #[test]
    fn what_is_written_is_read_back_and_damage_is_told() {
        let network = PolicyNetwork::random(5, &mut RandomStream::new(1, "test"));
        let data = write_policy(&network, [("seed".to_owned(), "1".to_owned())]).unwrap();
        let (back, words) = read_policy(&data).unwrap();
        assert_eq!((back, words["seed"].as_str()), (network, "1"));
        assert!(read_policy(&data[..data.len() - 4]).unwrap_err().to_string().contains("damaged"));
        let mut nan = data.clone();
        let end = nan.len();
        nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(read_policy(&nan).unwrap_err().to_string().contains("no finite number"));
    }
}
