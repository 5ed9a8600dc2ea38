//! Whom the connections to an engine trust, and who they say they are.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// TLS to an engine: the authorities that may have signed its certificates, and the certificate of this side. No other
/// authorities are trusted, also none of the system.
#[derive(Debug, Clone)]
pub struct EngineTls {
    #[cfg(feature = "postgresql")]
    config: ClientConfig,
    #[cfg(feature = "etcd")]
    for_requests: ureq::tls::TlsConfig,
}

/// A certificate and its private key, as PEM.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The certificate, and those between it and an authority that the engine knows.
    pub certificate: &'a [u8],
    /// The key.
    pub key: &'a [u8],
}

/// Why certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A text has none.
    #[error("there is no certificate in it (PEM)")]
    None,
    /// The key cannot be decoded.
    #[error("the key cannot be used: {0}")]
    Key(Box<dyn std::error::Error + Send + Sync>),
    /// A certificate cannot be decoded.
    #[error("a certificate cannot be used: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// The library refuses a certificate or the key.
    #[error("a certificate or its key cannot be used: {0}")]
    Refused(#[from] rustls::Error),
}

impl EngineTls {
    /// Trusts the authorities whose certificates are in a text of PEM.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(
        authorities: &[u8],
        credentials: Option<Credentials<'_>>,
    ) -> Result<EngineTls, TlsError> {
        let authorities = certificates(authorities)?;
        let mut roots = RootCertStore::empty();
        for certificate in authorities.iter().cloned() {
            roots.add(certificate)?;
        }
        let own = credentials.map(|own| {
            let key = PrivateKeyDer::from_pem_slice(own.key);
            let key = key.map_err(|error| TlsError::Key(error.into()))?;
            Ok::<_, TlsError>((certificates(own.certificate)?, key))
        });
        let own = own.transpose()?;
        #[cfg(feature = "etcd")]
        let for_requests = {
            let chain = own.as_ref().map(|(chain, _)| chain.as_slice());
            for_requests(&authorities, chain.zip(credentials))?
        };
        let provider = ring::default_provider();
        let config = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match own {
            Some((certificates, key)) => config.with_client_auth_cert(certificates, key)?,
            None => config.with_no_client_auth(),
        };
        #[cfg(not(feature = "postgresql"))]
        drop(config);
        Ok(EngineTls {
            #[cfg(feature = "postgresql")]
            config,
            #[cfg(feature = "etcd")]
            for_requests,
        })
    }

    #[cfg(feature = "postgresql")]
    pub(crate) fn config(&self) -> ClientConfig {
        self.config.clone()
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn for_requests(&self) -> ureq::tls::TlsConfig {
        self.for_requests.clone()
    }
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(TlsError::Certificate)?;
    if found.is_empty() {
        return Err(TlsError::None);
    }
    Ok(found)
}

#[cfg(feature = "etcd")]
fn for_requests(
    authorities: &[CertificateDer<'static>],
    own: Option<(&[CertificateDer<'static>], Credentials<'_>)>,
) -> Result<ureq::tls::TlsConfig, TlsError> {
    use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
    let owned = |of: &[CertificateDer<'static>]| {
        let owned = of.iter().map(|it| Certificate::from_der(it).to_owned());
        owned.collect::<Vec<_>>()
    };
    let own = own.map(|(chain, text)| {
        let key = PrivateKey::from_pem(text.key);
        let key = key.map_err(|error| TlsError::Key(error.into()))?;
        Ok::<_, TlsError>(ClientCert::new_with_certs(&owned(chain), key))
    });
    let own = own.transpose()?;
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(owned(authorities).into()))
        .client_cert(own)
        .unversioned_rustls_crypto_provider(ring::default_provider().into())
        .build())
}

/// Whether the cause is a certificate that is not trusted.
pub(crate) fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return true;
        }
        // An error of I/O shows the source of what it holds, and not that itself.
        let inner = error.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(|error| error.get_ref());
        if let Some(inner) = inner
            && is_distrust(inner)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
