//! How daemon and worker know each other: the daemon has a certificate of its own making, and the token file that it writes has a
//! secret and the fingerprint of that certificate. A worker that has the file trusts this daemon and no other.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The first word of a token file.
const FORM: &str = "rota-worker-1";
/// The name in the certificate. Workers go by the fingerprint, not by names.
const SERVER_NAME: &str = "rota";

/// What a daemon is known by to its workers.
pub struct WorkerIdentity {
    pub(super) secret_hash: [u8; 32],
    pub(super) acceptor: TlsAcceptor,
    /// The file that workers need.
    pub token_file: PathBuf,
}

impl WorkerIdentity {
    /// The identity that is kept in a directory, or a new one.
    pub fn of(state_dir: &Path) -> io::Result<Self> {
        let (cert_file, key_file) = (state_dir.join("workers-cert.pem"), state_dir.join("workers-key.pem"));
        if !cert_file.is_file() || !key_file.is_file() {
            let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()]).map_err(io::Error::other)?;
            write_secret(&key_file, &made.signing_key.serialize_pem())?;
            write_secret(&cert_file, &made.cert.pem())?;
        }
        let in_file = |path: &Path, error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}; remove it to have a new one made", path.display()))
        };
        let certificate = CertificateDer::from_pem_file(&cert_file).map_err(|error| in_file(&cert_file, &error))?;
        let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|error| in_file(&key_file, &error))?;
        let fingerprint = fingerprint(&certificate);
        let token_file = state_dir.join("worker-token");
        let token = match JoinToken::read(&token_file) {
            Ok(token) if token.fingerprint == fingerprint => token,
            _ => {
                let token = JoinToken { secret: new_secret()?, fingerprint };
                write_secret(&token_file, &token.to_text())?;
                token
            }
        };
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|error| in_file(&cert_file, &error))?;
        Ok(Self { secret_hash: hash(&token.secret), acceptor: TlsAcceptor::from(Arc::new(config)), token_file })
    }

    /// Whether a worker has the secret. Only hashes are compared, so that the time it takes tells nothing.
    pub(super) fn knows(&self, secret: &str) -> bool {
        hash(secret) == self.secret_hash
    }
}

/// What a token file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    pub(super) secret: String,
    fingerprint: [u8; 32],
}

impl JoinToken {
    /// Reads a token file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("token file {}: {error}", path.display())))?;
        Self::parse(&text).ok_or_else(|| {
            let problem = format!(
                "token file {}: `{FORM} SECRET sha256:FINGERPRINT` is expected; copy the file `worker-token` from the state directory \
                 of the daemon",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (form, secret, fingerprint) = (words.next()?, words.next()?, words.next()?);
        let digits = fingerprint.strip_prefix("sha256:")?;
        if form != FORM || words.next().is_some() || digits.len() != 64 || !digits.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self { secret: secret.to_owned(), fingerprint: bytes })
    }

    /// The same daemon by another secret.
    #[must_use]
    pub fn with_secret(self, secret: &str) -> Self {
        Self { secret: secret.to_owned(), ..self }
    }

    /// What a token file says.
    pub fn to_text(&self) -> String {
        format!("{FORM} {} sha256:{}\n", self.secret, hex(&self.fingerprint))
    }

    /// A short word for the daemon, by which a worker keeps the runs of different daemons apart.
    pub fn daemon(&self) -> String {
        hex(&self.fingerprint[..8])
    }

    /// What opens connections to this daemon and no other.
    pub(super) fn connector(&self) -> io::Result<TlsConnector> {
        let provider = provider();
        let pin = Arc::new(Pin { fingerprint: self.fingerprint, provider: Arc::clone(&provider) });
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(pin)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// The name that a worker asks for.
pub(super) fn server_name() -> io::Result<ServerName<'static>> {
    ServerName::try_from(SERVER_NAME).map_err(io::Error::other)
}

/// Accepts the certificate of one fingerprint.
#[derive(Debug)]
struct Pin {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(certificate) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        let problem = "the daemon has another certificate than the token file says: copy the file `worker-token` from its state \
                       directory again, if this is the daemon you mean";
        Err(rustls::Error::General(problem.to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate.as_ref()).into()
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}

fn new_secret() -> io::Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

/// Writes a file that only its owner may read, whole or not at all.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let prepared = path.with_extension("new");
    _ = std::fs::remove_file(&prepared);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&prepared)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(prepared, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_kept_and_its_token_file_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let first = WorkerIdentity::of(folder.path()).unwrap();
        let token = JoinToken::read(&first.token_file).unwrap();
        assert!(first.knows(&token.secret) && !first.knows("guess"));
        assert_eq!(std::fs::metadata(&first.token_file).unwrap().permissions().mode() & 0o777, 0o600);
        let second = WorkerIdentity::of(folder.path()).unwrap();
        assert!(second.knows(&token.secret), "a restart changes nothing");
    }

    #[test]
    fn a_token_file_that_is_none_says_what_is_expected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for text in ["", "hello", "rota-worker-1 secret sha256:12", "rota-worker-2 s sha256:00"] {
            std::fs::write(&path, text).unwrap();
            let error = JoinToken::read(&path).unwrap_err().to_string();
            assert!(error.contains("rota-worker-1 SECRET"), "{error}");
        }
    }
}
