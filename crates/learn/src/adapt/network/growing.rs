//! A network that can be changed while it trains: built from its structure, deepened, widened and made smaller again. What Adam remembers
//! of a parameter stays with it; new parameters start with an empty memory.

use crate::adapt::network::architecture::{Architecture, Leaf, StructureError};
use rota_core::random::RandomStream;
use rota_nn::layers::{BatchNorm, Convolution, Layer, LayerError, Linear, Mode, Parameter, Shape, Stack, moments};

/// Weights of a convolution from one channel to another.
const KERNEL: usize = 9;

/// Why a network cannot be changed as asked. It is then as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SurgeryError {
    #[error(transparent)]
    Structure(#[from] StructureError),
    #[error(transparent)]
    Layers(#[from] LayerError),
    #[error("block {0} gives the scores of the classes: it cannot be made wider")]
    LastBlock(usize),
    #[error("block {block} has {width} channels; give a larger width than that, not {wanted}")]
    NotWider { block: usize, width: usize, wanted: usize },
    #[error("the network cannot become smaller: block {0} has another width now than before it grew")]
    OtherWidth(usize),
}

/// How a new batch normalisation begins.
#[derive(Clone, Copy, Debug)]
pub enum Calibration<'a> {
    /// By the moments of this batch (channel by channel, so many images), so that training mode is preserved too.
    Batch(&'a [f32], usize),
    /// As a fresh layer, which changes what the network does in training mode: the study's way.
    None,
}

/// What is copied when a network becomes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrinking {
    /// Every layer of the blocks that stay, statistics of batch normalisation and optimiser included.
    Whole,
    /// The first layer of each block only, which then never learns again: the study's way.
    Compat,
}

/// A network and its structure.
#[derive(Clone, Debug)]
pub struct GrowingNetwork {
    /// The structure of the network, without its weights.
    pub architecture: Architecture,
    /// The layers, with an extra one ahead where images are laid flat first.
    pub stack: Stack,
}

fn uniform(count: usize, inputs: usize, stream: &mut RandomStream) -> Vec<f32> {
    let width = 1.0 / (inputs as f64).sqrt();
    (0..count).map(|_| stream.uniform(-width, width) as f32).collect()
}

fn fresh(leaf: Leaf, stream: &mut RandomStream) -> Layer {
    match leaf {
        Leaf::Convolution { inputs, outputs, padding } => {
            let weights = uniform(inputs * outputs * KERNEL, inputs * KERNEL, stream);
            let biases = uniform(outputs, inputs * KERNEL, stream);
            Layer::Convolution(Convolution::new(inputs, outputs, padding, weights, biases))
        }
        Leaf::Linear { inputs, outputs } => {
            let weights = uniform(inputs * outputs, inputs, stream);
            Layer::Linear(Linear::new(inputs, outputs, weights, uniform(outputs, inputs, stream)))
        }
        Leaf::BatchNorm { channels } => Layer::BatchNorm(BatchNorm::new(channels)),
        Leaf::Relu => Layer::Relu,
        Leaf::AveragePool => Layer::AveragePool,
        Leaf::GlobalPool => Layer::GlobalPool,
    }
}

impl GrowingNetwork {
    /// A network drawn as `PyTorch` draws by default.
    pub fn random(architecture: Architecture, stream: &mut RandomStream) -> Result<Self, SurgeryError> {
        let flat = matches!(architecture.stages[0].leaves[0], Leaf::Linear { .. }).then_some(Layer::Flatten);
        let layers = flat.into_iter().chain(architecture.leaves().map(|leaf| fresh(leaf, stream))).collect();
        let input = architecture.input;
        let shape = Shape { channels: input.channels, height: input.height, width: input.width };
        Ok(Self { stack: Stack::new(shape, layers)?, architecture })
    }

    /// The place of a stage's first layer.
    pub fn first_layer(&self, stage: usize) -> usize {
        let flat = usize::from(self.stack.layers.first() == Some(&Layer::Flatten));
        flat + self.architecture.stages[..stage].iter().map(|stage| stage.leaves.len()).sum::<usize>()
    }

    /// The numbers that learn, without frozen ones.
    pub fn trainable(&self) -> usize {
        let parameters = self.stack.layers.iter().flat_map(Layer::parameters);
        parameters.filter(|(_, parameter)| !parameter.frozen).map(|(_, parameter)| parameter.values.len()).sum()
    }

    /// Deepens a block by a stage that changes nothing at first.
    pub fn deepen(&mut self, block: usize, calibration: Calibration<'_>) -> Result<(), SurgeryError> {
        let mut grown = self.architecture.clone();
        let stage = grown.deepen(block)?;
        let place = self.first_layer(stage - 1) + self.architecture.stages[stage - 1].leaves.len();
        let mut added = Vec::new();
        for leaf in &grown.stages[stage].leaves {
            added.push(match *leaf {
                Leaf::Convolution { outputs, .. } => Layer::Convolution(Convolution::identity(outputs)),
                Leaf::Linear { outputs, .. } => Layer::Linear(Linear::identity(outputs)),
                Leaf::BatchNorm { channels } => Layer::BatchNorm(match calibration {
                    Calibration::Batch(images, batch) => {
                        let mut measured = self.stack.clone();
                        let values = measured.forward_to(images, batch, Mode::Train, place);
                        let of_channels = values.chunks_exact(values.len() / channels).map(moments);
                        BatchNorm::calibrated(&of_channels.collect::<Vec<_>>())
                    }
                    Calibration::None => BatchNorm::new(channels),
                }),
                Leaf::Relu => Layer::Relu,
                Leaf::AveragePool => Layer::AveragePool,
                Leaf::GlobalPool => Layer::GlobalPool,
            });
        }
        let mut layers = self.stack.layers.clone();
        layers.splice(place..place, added);
        self.stack = Stack::new(self.stack.input, layers)?;
        self.architecture = grown;
        Ok(())
    }

    /// Widens the last layer of a block: channels are copied, and what reads them divides its weights by the number of copies. With
    /// `noise`, the copies' weights move by so many times their own spread, so that copies can learn different things.
    pub fn widen(&mut self, block: usize, wanted: usize, noise: f64, stream: &mut RandomStream) -> Result<(), SurgeryError> {
        let blocks = self.architecture.blocks();
        let stage = self.architecture.stages.iter().rposition(|stage| stage.block == Some(block));
        let stage = stage.ok_or(StructureError::NoBlock { block, blocks })?;
        let place = self.first_layer(stage);
        let reader = |layer: &Layer| matches!(layer, Layer::Convolution(_) | Layer::Linear(_));
        let next = self.stack.layers.iter().skip(place + 1).position(reader).map(|offset| place + 1 + offset);
        let next = next.ok_or(SurgeryError::LastBlock(block))?;
        let width = match &self.stack.layers[place] {
            Layer::Convolution(layer) => layer.outputs,
            Layer::Linear(layer) => layer.outputs,
            _ => return Err(SurgeryError::LastBlock(block)),
        };
        if wanted <= width {
            return Err(SurgeryError::NotWider { block, width, wanted });
        }
        let copied = (0..wanted).map(|place| if place < width { place } else { stream.below(width as u64) as usize });
        let from = copied.collect::<Vec<_>>();
        let mut layers = self.stack.layers.clone();
        for layer in &mut layers[place..next] {
            widen_outputs(layer, &from, noise, width, stream);
        }
        widen_inputs(&mut layers[next], &from, width);
        let mut architecture = self.architecture.clone();
        let first = self.first_layer(0);
        let mut leaves = architecture.stages.iter_mut().flat_map(|stage| &mut stage.leaves).collect::<Vec<_>>();
        for layer in place..=next {
            match &mut *leaves[layer - first] {
                Leaf::Convolution { outputs, .. } | Leaf::Linear { outputs, .. } if layer == place => *outputs = wanted,
                Leaf::Convolution { inputs, .. } | Leaf::Linear { inputs, .. } => *inputs = wanted,
                Leaf::BatchNorm { channels } => *channels = wanted,
                Leaf::Relu | Leaf::AveragePool | Leaf::GlobalPool => {}
            }
        }
        self.stack = Stack::new(self.stack.input, layers)?;
        self.architecture = architecture;
        Ok(())
    }

    /// The smaller network that this one grew from, with what this one has learned since. `stored` is a copy from before the growth.
    pub fn shrunk(&self, stored: &Self, shrinking: Shrinking) -> Result<Self, SurgeryError> {
        let mut small = stored.clone();
        for (number, stage) in stored.architecture.stages.iter().enumerate() {
            let Some(block) = stage.block else { continue };
            let nth = stored.architecture.stages[..number].iter().filter(|other| other.block == Some(block)).count();
            let own = self.architecture.stages.iter().enumerate().filter(|(_, other)| other.block == Some(block));
            // Stages that were added later stand ahead of those added earlier, so that stages are counted from the block's end.
            let (count, kept) =
                (own.clone().count(), stored.architecture.stages.iter().filter(|s| s.block == Some(block)).count());
            let nth = if nth == 0 { 0 } else { count - (kept - nth) };
            let Some((place, large)) = own.clone().nth(nth) else { continue };
            if large.leaves != stage.leaves {
                return Err(SurgeryError::OtherWidth(block));
            }
            let (from, to) = (self.first_layer(place), stored.first_layer(number));
            for offset in 0..stage.leaves.len() {
                let layer = &self.stack.layers[from + offset];
                match shrinking {
                    Shrinking::Whole => small.stack.layers[to + offset] = layer.clone(),
                    Shrinking::Compat if offset == 0 && !stage.added => {
                        small.stack.layers[to] = layer.clone();
                        small.stack.layers[to].parameters_mut().into_iter().for_each(|parameter| parameter.frozen = true);
                    }
                    Shrinking::Compat => {}
                }
            }
        }
        Ok(small)
    }
}

/// How often each channel was copied.
fn copies(from: &[usize], width: usize) -> Vec<f32> {
    let mut counts = vec![0.0; width];
    for place in from {
        counts[*place] += 1.0;
    }
    counts
}

/// Copies the outputs of a layer. The slope by a copy is the original's divided by the number of copies.
fn widen_outputs(layer: &mut Layer, from: &[usize], noise: f64, width: usize, stream: &mut RandomStream) {
    let counts = &copies(from, width);
    let rows = |parameter: &Parameter, size: usize| {
        let places =
            from.iter().flat_map(|row| (0..size).map(move |at| (row * size + at, 1.0, counts[*row]))).collect::<Vec<_>>();
        parameter.gathered(&places)
    };
    let mut move_copies = |parameter: &mut Parameter, size: usize| {
        let spread = moments(&parameter.values).1.sqrt() * noise as f32;
        for value in &mut parameter.values[width * size..] {
            *value += spread * stream.normal() as f32;
        }
    };
    match layer {
        Layer::Convolution(layer) => {
            let size = layer.inputs * KERNEL;
            layer.weights = rows(&layer.weights, size);
            layer.biases = rows(&layer.biases, 1);
            layer.outputs = from.len();
            if noise > 0.0 {
                move_copies(&mut layer.weights, size);
            }
        }
        Layer::Linear(layer) => {
            layer.weights = rows(&layer.weights, layer.inputs);
            layer.biases = rows(&layer.biases, 1);
            layer.outputs = from.len();
            if noise > 0.0 {
                move_copies(&mut layer.weights, layer.inputs);
            }
        }
        Layer::BatchNorm(layer) => {
            let mut wide = BatchNorm::new(from.len());
            wide.scale = rows(&layer.scale, 1);
            wide.shift = rows(&layer.shift, 1);
            wide.running_mean = from.iter().map(|place| layer.running_mean[*place]).collect();
            wide.running_variance = from.iter().map(|place| layer.running_variance[*place]).collect();
            *layer = wide;
        }
        Layer::Relu | Layer::AveragePool | Layer::GlobalPool | Layer::Flatten => {}
    }
}

/// Lets a layer read copies: its weights are divided by their number. The slope by such a weight is what it was.
fn widen_inputs(layer: &mut Layer, from: &[usize], width: usize) {
    let counts = copies(from, width);
    let columns = |parameter: &Parameter, outputs: usize, size: usize| {
        let places = (0..outputs).flat_map(|output| {
            let counts = &counts;
            from.iter()
                .flat_map(move |input| (0..size).map(move |at| ((output * width + input) * size + at, counts[*input], 1.0)))
        });
        parameter.gathered(&places.collect::<Vec<_>>())
    };
    match layer {
        Layer::Convolution(layer) => {
            layer.weights = columns(&layer.weights, layer.outputs, KERNEL);
            layer.inputs = from.len();
        }
        Layer::Linear(layer) => {
            layer.weights = columns(&layer.weights, layer.outputs, 1);
            layer.inputs = from.len();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{FinalRelu, InputShape, ModelKind};
    use rota_nn::cross_entropy;

    const INPUT: InputShape = InputShape { channels: 1, height: 12, width: 12, classes: 10 };
    const BATCH: usize = 6;

    /// A network that has trained a little, so that its statistics are not those of a new one, and a batch.
    fn trained(kind: ModelKind, final_relu: FinalRelu) -> (GrowingNetwork, Vec<f32>) {
        let mut stream = RandomStream::new(3, "surgery");
        let architecture = Architecture::new(kind, INPUT, final_relu).unwrap();
        let mut network = GrowingNetwork::random(architecture, &mut stream).unwrap();
        let images = (0..BATCH * 144).map(|_| stream.normal() as f32).collect::<Vec<_>>();
        for _ in 0..5 {
            let mut scores = network.stack.forward(&images, BATCH, Mode::Train);
            cross_entropy(&mut scores, 10, &[0, 1, 2, 3, 4, 5]);
            network.stack.backward(&scores, BATCH);
            network.stack.step(0.01);
        }
        (network, images)
    }

    fn difference(one: &GrowingNetwork, other: &GrowingNetwork, images: &[f32], mode: Mode) -> f32 {
        let one = one.stack.clone().forward(images, BATCH, mode);
        let other = other.stack.clone().forward(images, BATCH, mode);
        one.iter().zip(&other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn deepening_any_block_of_any_model_changes_nothing_in_both_modes() {
        for kind in ModelKind::ALL {
            let (network, images) = trained(kind, FinalRelu::Dropped);
            for block in 0..network.architecture.blocks() {
                let mut grown = network.clone();
                grown.deepen(block, Calibration::Batch(&images, BATCH)).unwrap();
                grown.deepen(block, Calibration::Batch(&images, BATCH)).unwrap();
                assert_eq!(grown.stack.parameters(), grown.architecture.parameters());
                for mode in [Mode::Evaluate, Mode::Train] {
                    let difference = difference(&network, &grown, &images, mode);
                    assert!(difference <= 1e-5, "{kind:?}, block {block}, {mode:?}: {difference}");
                }
            }
        }
    }

    #[test]
    fn the_studys_deepening_preserves_evaluation_only() {
        for kind in ModelKind::ALL {
            let (network, images) = trained(kind, FinalRelu::Kept);
            let scores = network.stack.clone().forward(&images, BATCH, Mode::Evaluate);
            let scale = scores.into_iter().fold(0.0, |most: f32, score| most.max(score.abs()));
            for block in 0..network.architecture.blocks() {
                let mut grown = network.clone();
                grown.deepen(block, Calibration::None).unwrap();
                let moved = difference(&network, &grown, &images, Mode::Evaluate);
                assert!(moved <= 1e-4 * scale, "{kind:?}, block {block}: {moved} of {scale}");
            }
        }
        let (network, images) = trained(ModelKind::ConvNet2, FinalRelu::Kept);
        let mut grown = network.clone();
        for block in [0, 1, 1] {
            grown.deepen(block, Calibration::None).unwrap();
        }
        assert!(difference(&network, &grown, &images, Mode::Train) > 1e-2);
    }

    #[test]
    fn a_deepening_keeps_what_adam_remembers_and_new_layers_start_empty() {
        let (network, images) = trained(ModelKind::ConvNet2, FinalRelu::Dropped);
        let mut grown = network.clone();
        grown.deepen(0, Calibration::Batch(&images, BATCH)).unwrap();
        let parameters = |network: &GrowingNetwork| {
            let all = network.stack.layers.iter().flat_map(Layer::parameters);
            all.map(|(_, parameter)| parameter.clone()).collect::<Vec<_>>()
        };
        let (before, mut after) = (parameters(&network), parameters(&grown));
        // The new convolution and batch normalisation stand behind the first ones, four parameters each time.
        let new = after.drain(4..8).collect::<Vec<_>>();
        assert!(
            new.iter().all(|parameter| parameter.steps == 0 && parameter.mean.iter().all(|mean| mean.abs() < f32::EPSILON)),
            "{new:?}"
        );
        assert_eq!(before, after);
        assert!(before.iter().all(|parameter| parameter.steps == 5));
    }

    #[test]
    fn widening_changes_nothing_and_keeps_what_adam_remembers() {
        for kind in ModelKind::ALL {
            let (network, images) = trained(kind, FinalRelu::Dropped);
            for block in 0..network.architecture.blocks() {
                if network.clone().widen(block, 80, 0.0, &mut RandomStream::new(1, "widen"))
                    == Err(SurgeryError::LastBlock(block))
                {
                    continue;
                }
                let mut wide = network.clone();
                wide.deepen(block, Calibration::Batch(&images, BATCH)).unwrap();
                wide.widen(block, 80, 0.0, &mut RandomStream::new(1, "widen")).unwrap();
                assert_eq!(wide.stack.parameters(), wide.architecture.parameters());
                for mode in [Mode::Evaluate, Mode::Train] {
                    let difference = difference(&network, &wide, &images, mode);
                    assert!(difference <= 1e-5, "{kind:?}, block {block}, {mode:?}: {difference}");
                }
                let before = network.stack.layers.iter().flat_map(Layer::parameters).last().unwrap().1.clone();
                let after = wide.stack.layers.iter().flat_map(Layer::parameters).last().unwrap().1.clone();
                assert_eq!((before.mean, before.steps), (after.mean, after.steps));
            }
        }
    }

    #[test]
    fn what_cannot_be_widened_is_refused_and_nothing_changes() {
        let (mut network, images) = trained(ModelKind::ConvNet2, FinalRelu::Dropped);
        let before = network.clone();
        let mut stream = RandomStream::new(1, "widen");
        assert_eq!(network.widen(2, 20, 0.0, &mut stream), Err(SurgeryError::LastBlock(2)));
        assert_eq!(network.widen(0, 32, 0.0, &mut stream), Err(SurgeryError::NotWider { block: 0, width: 32, wanted: 32 }));
        assert!(network.deepen(9, Calibration::None).is_err());
        assert!(difference(&before, &network, &images, Mode::Train).abs() < f32::EPSILON);
    }

    #[test]
    fn a_smaller_network_keeps_what_was_learned_and_everything_trains() {
        let (stored, images) = trained(ModelKind::ConvNet2, FinalRelu::Dropped);
        let mut grown = stored.clone();
        for block in [0, 1] {
            grown.deepen(block, Calibration::Batch(&images, BATCH)).unwrap();
        }
        // Nothing learned since: the smaller network is the one from before.
        let same = grown.shrunk(&stored, Shrinking::Whole).unwrap();
        assert!(difference(&stored, &same, &images, Mode::Train) < 1e-6);
        let mut scores = grown.stack.forward(&images, BATCH, Mode::Train);
        cross_entropy(&mut scores, 10, &[0, 1, 2, 3, 4, 5]);
        grown.stack.backward(&scores, BATCH);
        grown.stack.step(0.01);
        let whole = grown.shrunk(&stored, Shrinking::Whole).unwrap();
        assert_eq!((whole.trainable(), whole.stack.layers.len()), (stored.stack.parameters(), stored.stack.layers.len()));
        assert_eq!(whole.stack.layers[0], grown.stack.layers[0]);
        assert_eq!(whole.stack.layers[1], grown.stack.layers[1]);
        let compat = grown.shrunk(&stored, Shrinking::Compat).unwrap();
        assert_eq!(compat.trainable(), 128);
        // The second block reads more channels than before.
        grown.widen(0, 40, 0.0, &mut RandomStream::new(1, "widen")).unwrap();
        assert_eq!(grown.shrunk(&stored, Shrinking::Whole).unwrap_err(), SurgeryError::OtherWidth(1));
    }
}
