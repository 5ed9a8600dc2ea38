//! What people write: configuration files and URLs.

use gannet::url::Url;
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
