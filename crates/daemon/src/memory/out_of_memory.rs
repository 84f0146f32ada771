//! Recognising that a job failed for want of a GPU's memory, by what the frameworks write before they end.

/// How much of the end of a log is looked through.
pub const LOG_BYTES: u64 = 64 << 10;

/// What is written when a GPU's memory does not suffice.
const SIGNS: [&str; 10] = [
    // PyTorch
    "CUDA out of memory",
    "torch.OutOfMemoryError",
    "torch.cuda.OutOfMemoryError",
    // TensorFlow
    "ResourceExhaustedError",
    "OOM when allocating tensor",
    // JAX and XLA
    "RESOURCE_EXHAUSTED: Out of memory",
    // CUDA and its libraries
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
];

/// The sign found at the end of a failed job's log, if there is one.
pub fn sign_in(log: &[u8]) -> Option<&'static str> {
    SIGNS.into_iter().find(|sign| memchr::memmem::find(log, sign.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frameworks_write_is_recognised() {
        for line in [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8192,8192]",
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
            "failed to allocate 2.00GiB: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        ] {
            assert!(sign_in(format!("epoch 3\n{line}\n").as_bytes()).is_some(), "{line}");
        }
    }

    #[test]
    fn other_failures_are_not() {
        for line in
            ["", "ValueError: out of memory bounds of the index", "Killed", "RuntimeError: CUDA error: device-side assert"]
        {
            assert_eq!(sign_in(line.as_bytes()), None, "{line}");
        }
    }
}
