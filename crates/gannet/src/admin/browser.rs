//! The page for browsers: files in the binary. Its script reads the answers that scripts read too.

use super::page;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_SECURITY_POLICY, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode};

/// No source of anything but this server, no text as script or style, and no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of the page.
struct Asset {
    path: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $media_type:literal, $file:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            content: include_bytes!(concat!("page/", $file)),
        }
    };
}

const ASSETS: [Asset; 7] = [
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/page.js", "text/javascript; charset=utf-8", "page.js"),
    asset!("/style.css", "text/css; charset=utf-8", "style.css"),
    asset!("/icon.svg", "image/svg+xml", "icon.svg"),
    asset!(
        "/uPlot.iife.min.js",
        "text/javascript; charset=utf-8",
        "uPlot.iife.min.js"
    ),
    asset!("/uPlot.min.css", "text/css; charset=utf-8", "uPlot.min.css"),
    asset!(
        "/uPlot.LICENSE",
        "text/plain; charset=utf-8",
        "uPlot.LICENSE"
    ),
];

/// A file of the page, if the request asks for one. `/` is one for readers that take HTML.
pub(super) fn answer<B>(request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let path = request.uri().path();
    if path == "/" && !takes_html(request.headers()) {
        return None;
    }
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let mut response = page(StatusCode::OK, asset.media_type, asset.content);
    let policy = HeaderValue::from_static(POLICY);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    Some(response)
}

/// Whether a reader names HTML among the types that it takes, as browsers do.
fn takes_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let texts = accepted.filter_map(|value| value.to_str().ok());
    let mut types = texts.flat_map(|text| text.split(','));
    types.any(|kind| {
        let name = kind.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("text/html")
    })
}
