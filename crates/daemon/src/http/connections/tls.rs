//! The certificate of the port.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The certificate and the key of two files; what is wrong with them otherwise.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let in_file = |path: &Path, problem: String| format!("{}: {problem}", path.display());
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| in_file(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(in_file(cert, "there is no certificate in it; PEM begins with `-----BEGIN CERTIFICATE-----`".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| format!("{} and {}: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
