//! Messages on a stream of bytes: each with its length before it, and none above a size.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads the bytes of one message.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > bytes_max {
        let problem = format!("a message of {length} bytes is announced, and {bytes_max} are the most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let mut bytes = Vec::new();
    // Memory is taken as the bytes come, not as they are announced.
    stream.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Writes one message.
pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    // One write, so that a short message is one record of TLS.
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame).await?;
    stream.flush().await
}

/// A message as bytes.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(message).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The message that bytes stand for.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("a message cannot be read: {error}")))
}

/// The same in JSON, for the first messages of a connection.
pub(super) async fn write_json(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    write(stream, &serde_json::to_vec(message)?).await
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{FromWorker, ToWorker};
    use super::*;
    use crate::executor::{RunKey, Stop};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let run = RunKey { job: 7, attempt: 2 };
        let mut wire = Vec::new();
        block_on(write(&mut wire, &encode(&ToWorker::Stop(run, Stop::Notice)).unwrap())).unwrap();
        let bytes = block_on(read(&mut wire.as_slice(), 1000)).unwrap();
        assert!(matches!(decode(&bytes).unwrap(), ToWorker::Stop(other, Stop::Notice) if other == run));
    }

    #[test]
    fn a_message_that_is_too_long_cut_off_or_nonsense_is_an_error() {
        let long = [0xff, 0xff, 0xff, 0xff, 1];
        let error = block_on(read(&mut long.as_slice(), 1000)).unwrap_err();
        assert!(error.to_string().contains("1000 are the most"), "{error}");
        let cut = [0, 0, 0, 9, 1, 2];
        assert_eq!(block_on(read(&mut cut.as_slice(), 1000)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(decode::<FromWorker>(&[99, 99]).unwrap_err().to_string().contains("cannot be read"));
    }
}
