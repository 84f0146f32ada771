//! The structure of a network that may grow: stages of layers, some of which are blocks that can be deepened.
//!
//! Blocks are numbered in the order in which the model defines them. A deepening adds a stage right after the block itself, ahead of
//! stages that were added earlier, and changes no number.

use serde::{Deserialize, Serialize};

/// The models of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are called as the study calls them")]
pub enum ModelKind {
    ConvNet,
    ConvNet2,
    ConvNet3,
    LargeConvNet,
    FeedForward1,
    FeedForward2,
    FeedForward3,
    BatchNormConvolution,
}

impl ModelKind {
    /// All models that can be trained.
    pub const ALL: [Self; 8] = [
        Self::ConvNet,
        Self::ConvNet2,
        Self::ConvNet3,
        Self::LargeConvNet,
        Self::FeedForward1,
        Self::FeedForward2,
        Self::FeedForward3,
        Self::BatchNormConvolution,
    ];

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConvNet => "ConvNet",
            Self::ConvNet2 => "ConvNet2",
            Self::ConvNet3 => "ConvNet3",
            Self::LargeConvNet => "LargeConvNet",
            Self::FeedForward1 => "FeedForward1",
            Self::FeedForward2 => "FeedForward2",
            Self::FeedForward3 => "FeedForward3",
            Self::BatchNormConvolution => "BatchNormConvolution",
        }
    }
}

impl std::str::FromStr for ModelKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| format!("unknown model `{text}`; known are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The images that a network reads, and how many classes it tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputShape {
    /// The colours of an image.
    pub channels: usize,
    /// The rows of an image.
    pub height: usize,
    /// The columns of an image.
    pub width: usize,
    /// The classes that images are told apart by.
    pub classes: usize,
}

impl InputShape {
    /// CIFAR-10's: 3×32×32, ten classes.
    pub const CIFAR: Self = Self { channels: 3, height: 32, width: 32, classes: 10 };
}

/// A layer, with what its shape needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the layer's own words")]
pub enum Leaf {
    /// A convolution of 3×3 with stride 1.
    Convolution { inputs: usize, outputs: usize, padding: usize },
    /// Batch normalisation over channels.
    BatchNorm { channels: usize },
    /// The larger of the value and zero.
    Relu,
    /// The mean of 2×2 pixels.
    AveragePool,
    /// The mean of all pixels of a channel.
    GlobalPool,
    /// A dense layer.
    Linear { inputs: usize, outputs: usize },
}

impl Leaf {
    /// The layer's printed signature, which names its type and every shape argument.
    pub fn signature(self) -> String {
        match self {
            Self::Convolution { inputs, outputs, padding: 0 } => {
                format!("Conv2d({inputs}, {outputs}, kernel_size=(3, 3), stride=(1, 1))")
            }
            Self::Convolution { inputs, outputs, padding } => {
                format!("Conv2d({inputs}, {outputs}, kernel_size=(3, 3), stride=(1, 1), padding=({padding}, {padding}))")
            }
            Self::BatchNorm { channels } => {
                format!("BatchNorm2d({channels}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)")
            }
            Self::Relu => "ReLU()".to_owned(),
            Self::AveragePool => "AvgPool2d(kernel_size=(2, 2), stride=(2, 2), padding=0)".to_owned(),
            Self::GlobalPool => "AdaptiveAvgPool2d(output_size=(1, 1))".to_owned(),
            Self::Linear { inputs, outputs } => format!("Linear(in_features={inputs}, out_features={outputs}, bias=True)"),
        }
    }

    /// The layer's trainable parameters.
    pub fn parameters(self) -> usize {
        match self {
            Self::Convolution { inputs, outputs, .. } => 9 * inputs * outputs + outputs,
            Self::BatchNorm { channels } => 2 * channels,
            Self::Linear { inputs, outputs } => inputs * outputs + outputs,
            Self::Relu | Self::AveragePool | Self::GlobalPool => 0,
        }
    }
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockKind {
    /// Convolution, batch normalisation, `ReLU`.
    Convolution,
    /// Dense layer, `ReLU`.
    Dense,
}

/// A run of layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The block that the stage is, or that it was added to; pools and layers that cannot grow have none.
    pub block: Option<usize>,
    /// Whether a deepening added the stage.
    pub added: bool,
    /// The layers of the stage, from input to output.
    pub leaves: Vec<Leaf>,
}

/// Whether the last dense layer ends in a `ReLU`, which kills classes whose score is never positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinalRelu {
    /// As in the study.
    Kept,
    /// The scores are left as they are, which is Rota's default.
    Dropped,
}

/// Why a network cannot be built or changed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum StructureError {
    #[error("{model} needs images of at least {least}×{least} pixels; these have {height}×{width}")]
    TooSmall { model: &'static str, least: usize, height: usize, width: usize },
    #[error("there is no block {block}; the model's blocks are 0 to {last}", last = blocks.saturating_sub(1))]
    NoBlock { block: usize, blocks: usize },
    #[error(
        "block {0} cannot be deepened: it does not end in a ReLU, so that a layer of identity and ReLU after it would change \
         the result"
    )]
    NotIdempotent(usize),
}

/// A network's structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Architecture {
    /// The model it started from.
    pub kind: ModelKind,
    /// What it reads and tells apart.
    pub input: InputShape,
    /// The stages, from the image to the scores.
    pub stages: Vec<Stage>,
}

fn conv(block: usize, inputs: usize, outputs: usize, padding: usize) -> Stage {
    let leaves = vec![Leaf::Convolution { inputs, outputs, padding }, Leaf::BatchNorm { channels: outputs }, Leaf::Relu];
    Stage { block: Some(block), added: false, leaves }
}

fn dense(block: usize, inputs: usize, outputs: usize) -> Stage {
    Stage { block: Some(block), added: false, leaves: vec![Leaf::Linear { inputs, outputs }, Leaf::Relu] }
}

fn plain(leaf: Leaf) -> Stage {
    Stage { block: None, added: false, leaves: vec![leaf] }
}

impl Architecture {
    /// The model as it is before it grows.
    pub fn new(kind: ModelKind, input: InputShape, final_relu: FinalRelu) -> Result<Self, StructureError> {
        let InputShape { channels, height, width, classes } = input;
        let (pool, global) = (plain(Leaf::AveragePool), plain(Leaf::GlobalPool));
        let pixels = channels * height * width;
        let (least, mut stages) = match kind {
            ModelKind::ConvNet => {
                let stages = vec![conv(0, channels, 32, 0), conv(1, 32, 32, 0), pool, conv(2, 32, 32, 0), global];
                (10, [stages, vec![dense(3, 32, classes)]].concat())
            }
            ModelKind::ConvNet2 => (8, vec![conv(0, channels, 32, 0), pool, conv(1, 32, 32, 0), global, dense(2, 32, classes)]),
            ModelKind::ConvNet3 => (5, vec![conv(0, channels, 64, 0), conv(1, 64, 32, 0), global, dense(2, 32, classes)]),
            ModelKind::LargeConvNet => {
                let first = vec![conv(0, channels, 32, 0), conv(1, 32, 32, 1), conv(2, 32, 32, 0), conv(3, 32, 32, 1), pool];
                let second = vec![conv(4, 32, 32, 0), conv(5, 32, 32, 1), global];
                (10, [first, second, vec![dense(6, 32, classes), dense(7, classes, classes)]].concat())
            }
            ModelKind::FeedForward1 => (1, vec![dense(0, pixels, classes)]),
            ModelKind::FeedForward2 => (1, vec![dense(0, pixels, 32), dense(1, 32, classes)]),
            ModelKind::FeedForward3 => (1, vec![dense(0, pixels, 32), dense(1, 32, 32), dense(2, 32, classes)]),
            ModelKind::BatchNormConvolution => {
                let head = plain(Leaf::Linear { inputs: 64, outputs: classes });
                (5, vec![conv(0, channels, 32, 0), conv(1, 32, 64, 0), global, head])
            }
        };
        if height < least || width < least {
            return Err(StructureError::TooSmall { model: kind.name(), least, height, width });
        }
        if final_relu == FinalRelu::Dropped
            && let Some(last) = stages.last_mut()
            && last.block.is_some()
        {
            last.leaves.pop();
        }
        Ok(Self { kind, input, stages })
    }

    /// How many blocks can be named; the action "nothing" has this number.
    pub fn blocks(&self) -> usize {
        self.stages.iter().filter(|stage| !stage.added && stage.block.is_some()).count()
    }

    /// The kind of a block.
    pub fn block_kind(&self, block: usize) -> Option<BlockKind> {
        let stage = self.stages.iter().find(|stage| stage.block == Some(block) && !stage.added)?;
        Some(if matches!(stage.leaves[0], Leaf::Convolution { .. }) { BlockKind::Convolution } else { BlockKind::Dense })
    }

    /// Adds a stage to a block and gives its place. The last dense layer without its `ReLU` is deepened by a layer without one: an identity
    /// changes nothing there either.
    pub fn deepen(&mut self, block: usize) -> Result<usize, StructureError> {
        let original = |stage: &Stage| stage.block == Some(block) && !stage.added;
        let Some(place) = self.stages.iter().position(original) else {
            return Err(StructureError::NoBlock { block, blocks: self.blocks() });
        };
        let ends_in_relu = self.stages[place].leaves.last() == Some(&Leaf::Relu);
        let leaves = match self.stages[place].leaves[0] {
            Leaf::Convolution { .. } if !ends_in_relu => return Err(StructureError::NotIdempotent(block)),
            Leaf::Convolution { outputs, .. } => vec![
                Leaf::Convolution { inputs: outputs, outputs, padding: 1 },
                Leaf::BatchNorm { channels: outputs },
                Leaf::Relu,
            ],
            Leaf::Linear { outputs, .. } if ends_in_relu => vec![Leaf::Linear { inputs: outputs, outputs }, Leaf::Relu],
            Leaf::Linear { outputs, .. } => vec![Leaf::Linear { inputs: outputs, outputs }],
            _ => return Err(StructureError::NotIdempotent(block)),
        };
        self.stages.insert(place + 1, Stage { block: Some(block), added: true, leaves });
        Ok(place + 1)
    }

    /// The structure after a list of actions; a number that is no block is "nothing".
    pub fn after(&self, actions: &[usize]) -> Result<Self, StructureError> {
        let mut grown = self.clone();
        for &action in actions.iter().filter(|action| **action < self.blocks()) {
            grown.deepen(action)?;
        }
        Ok(grown)
    }

    /// All layers in order.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> + '_ {
        self.stages.iter().flat_map(|stage| stage.leaves.iter().copied())
    }

    /// The trainable parameters.
    pub fn parameters(&self) -> usize {
        self.leaves().map(Leaf::parameters).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(kind: ModelKind) -> Architecture {
        Architecture::new(kind, InputShape::CIFAR, FinalRelu::Kept).unwrap()
    }

    #[test]
    fn parameters_layers_and_blocks_are_the_studys() {
        for (kind, parameters, leaves, blocks) in [
            (ModelKind::ConvNet, 19_914, 13, 4),
            (ModelKind::ConvNet2, 10_602, 10, 3),
            (ModelKind::ConvNet3, 20_778, 9, 3),
            (ModelKind::LargeConvNet, 47_960, 24, 8),
            (ModelKind::FeedForward1, 30_730, 2, 1),
            (ModelKind::FeedForward2, 98_666, 4, 2),
            (ModelKind::FeedForward3, 99_722, 6, 3),
            (ModelKind::BatchNormConvolution, 20_234, 8, 2),
        ] {
            let model = study(kind);
            assert_eq!((model.parameters(), model.leaves().count(), model.blocks()), (parameters, leaves, blocks), "{kind:?}");
        }
    }

    #[test]
    fn a_deepening_costs_what_the_study_says_and_comes_right_after_its_block() {
        let counts = |kind, actions: &[usize]| study(kind).after(actions).unwrap().parameters();
        assert_eq!([0, 1, 2, 3].map(|times| counts(ModelKind::ConvNet2, &[0, 0, 0][..times])), [10_602, 19_914, 29_226, 38_538]);
        assert_eq!(counts(ModelKind::ConvNet3, &[0, 0, 0]), 131_946);
        assert_eq!(counts(ModelKind::ConvNet2, &[2, 3, 3]), 10_712);
        let grown = study(ModelKind::ConvNet2).after(&[0, 1, 0]).unwrap();
        let shape = grown.stages.iter().map(|stage| (stage.block, stage.added)).collect::<Vec<_>>();
        let of = |block, added| (Some(block), added);
        assert_eq!(
            shape,
            [of(0, false), of(0, true), of(0, true), (None, false), of(1, false), of(1, true), (None, false), of(2, false)]
        );
        assert_eq!(grown.blocks(), 3);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut model = study(ModelKind::BatchNormConvolution);
        assert_eq!(model.deepen(2).unwrap_err().to_string(), "there is no block 2; the model's blocks are 0 to 1");
        let tiny = InputShape { channels: 1, height: 6, width: 6, classes: 10 };
        let error = Architecture::new(ModelKind::ConvNet2, tiny, FinalRelu::Dropped).unwrap_err();
        assert_eq!(error.to_string(), "ConvNet2 needs images of at least 8×8 pixels; these have 6×6");
        assert!("ConvNet9".parse::<ModelKind>().unwrap_err().contains("LargeConvNet"));
    }
}
