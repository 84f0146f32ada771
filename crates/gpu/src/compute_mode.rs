//! Compute modes, read and set: the one thing about a device that Rota changes, and only for [`Mps`](crate::Mps).

use crate::ComputeMode;

/// Reads and sets the compute modes of devices.
pub trait ComputeModes {
    /// The mode of a device now; [`ComputeMode::Unknown`] if the driver does not say.
    fn get(&self, uuid: &str) -> Result<ComputeMode, ModeError>;

    /// Sets the mode of a device. It holds until it is set again, or the driver is loaded anew.
    fn set(&self, uuid: &str, mode: ComputeMode) -> Result<(), ModeError>;
}

/// Why a mode could not be asked or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// Only root may.
    #[error("only root may change who may use a GPU")]
    NoPermission,
    /// The device or the driver has no such setting.
    #[error("the GPU has no such compute mode")]
    NotSupported,
    /// The device is gone.
    #[error("the GPU is lost")]
    Lost,
    /// The driver would not.
    #[error("the driver answered: {0}")]
    Driver(String),
}
