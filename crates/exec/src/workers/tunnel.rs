//! Connections of jobs to the lease service, carried in pieces inside the connection of their worker: a job on another node finds the
//! service on its own machine, and no port of the daemon has to be opened for it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::protocol::TunnelPiece;

/// The largest piece.
const PIECE_BYTES: usize = 32 << 10;

/// Carries one connection: what is read from it becomes pieces, and the pieces that come are written to it. Ends when either side ends.
pub(super) async fn carry(
    stream: TcpStream,
    connection: u64,
    mut incoming: UnboundedReceiver<Vec<u8>>,
    outgoing: &UnboundedSender<TunnelPiece>,
) {
    let (mut reader, mut writer) = stream.into_split();
    let reading = async {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(length) = reader.read(&mut buffer).await {
            let piece = TunnelPiece { connection, bytes: buffer[..length].to_vec() };
            if length == 0 || outgoing.send(piece).is_err() {
                return;
            }
        }
    };
    let writing = async {
        while let Some(bytes) = incoming.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}
