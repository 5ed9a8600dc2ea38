//! Texts that users write: configuration files and URLs.

use gannet::ClientKey;
use gannet::url::Url;
use gannet::volume::Description;
use gannet_cli::config::Config;

pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Err(error) = Config::parse(text) {
        assert!(error.line <= text.lines().count() + 1, "{error}");
    }
}

pub(crate) fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(url) = Url::parse(text) {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(&url), "{url}");
    }
}

/// `volume.toml`.
pub(crate) fn volume_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(description) = Description::parse(text)
        && let Ok(text) = description.to_text()
    {
        assert_eq!(Description::parse(&text), Ok(description), "{text}");
    }
}

/// The key file of a volume's clients.
pub(crate) fn client_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match ClientKey::parse(text) {
        Ok(key) => {
            let again = ClientKey::parse(&key.to_text(text));
            assert_eq!(again.ok().map(ClientKey::to_bytes), Some(key.to_bytes()));
        }
        Err(error) => drop(error.to_string()),
    }
}
