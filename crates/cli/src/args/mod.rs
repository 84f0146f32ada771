//! What can be typed: the types behind `--help`. What it means is decided in the module of each command. The options of the live
//! commands are in `live/args`.

mod adapt;
mod allocate;
mod commands;
mod learn;
pub mod numbers;
mod predict;
mod simulate;
mod throughputs;
mod traces;
mod whatif;

pub use adapt::{
    AdaptArgs, AdaptBenchArgs, AdaptEvaluateArgs, AdaptLearnArgs, AdaptPlotArgs, AdaptRunArgs, AdaptSweepArgs, AdaptVerb,
    CostWord, SimulatedCostWord, WorkArgs,
};
pub use allocate::{AllocArgs, SolverWord};
pub use commands::{Cli, Command};
pub use learn::{AlgorithmWord, BenchArgs, EnvArgs, EvalArgs, LearnArgs, LearnVerb, ShadowArgs, TrainArgs};
pub use numbers::window;
pub use predict::PredictArgs;
pub use simulate::{MechanismWord, ModelArgs, PoliciesArgs, ReadArgs, SimArgs, SweepArgs};
pub use throughputs::{
    ConvertThroughputsArgs, EstimateThroughputsArgs, LiveThroughputsArgs, MeasureThroughputsArgs, MeasuredKind,
    ShowThroughputsArgs, ThroughputsArgs, ThroughputsCommand,
};
pub use traces::{
    ConvertArgs, GenArgs, ImportArgs, ImportSource, InfoArgs, RunTraceArgs, SacctArgs, TraceArgs, TraceCommand, WrittenFormat,
};
pub use whatif::{SharingWord, WhatIfArgs};
