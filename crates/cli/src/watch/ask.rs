//! A question to a server's admin address, over HTTP.

use crate::cli::AdminPlace;
use crate::failure::Failure;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::http::request::Builder;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// How long a server may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Bytes of the largest answer.
const BYTES_MAX: usize = 8 << 20;

/// Why a server did not say what it was asked.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nothing listens, or the connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server broke off, or does not speak HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// It did not answer in time.
    #[error("no answer within {} seconds", ANSWER_MAX.as_secs())]
    Late,
    /// It answers with another status.
    #[error("it answers {status}: {text}")]
    Status {
        /// Its status.
        status: hyper::StatusCode,
        /// Its reason.
        text: String,
    },
    /// The answer is longer than any of a server.
    #[error("the answer is longer than {BYTES_MAX} bytes")]
    Long,
    /// The answer has other contents than those of this release.
    #[error("the answer is not that of an admin address: {0}")]
    Content(#[from] serde_json::Error),
}

impl AskError {
    /// The failure of a command that asked at `place`.
    pub(super) fn explain(self, place: &AdminPlace) -> Failure {
        let hint = match &self {
            AskError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "the socket is for the user who runs the server: use sudo, or `gannet serve --admin ADDRESS:PORT`"
            }
            AskError::Io(_) => {
                "start the server with `gannet serve --admin ADDR`, and give the address of its ready line"
            }
            AskError::Late => "the server hangs: see its log, and `gannet doctor`",
            _ => "give the address after `admin=` in the server's ready line",
        };
        Failure::new(format!("cannot ask {place}"), self).hint(hint)
    }
}

/// The answer to `path`.
pub(super) async fn ask<T: DeserializeOwned>(
    place: &AdminPlace,
    path: &str,
) -> Result<T, AskError> {
    let body = send(place, Request::get(path)).await?;
    Ok(serde_json::from_slice(&body)?)
}

/// The text that answers a request to change something.
pub(super) async fn change(place: &AdminPlace, path: &str) -> Result<String, AskError> {
    let body = send(place, Request::post(path)).await?;
    Ok(String::from_utf8_lossy(&body).trim().to_owned())
}

async fn send(place: &AdminPlace, request: Builder) -> Result<Bytes, AskError> {
    let asking = async {
        match place {
            AdminPlace::Unix(socket) => {
                let stream = UnixStream::connect(socket).await?;
                send_over(stream, request.header(header::HOST, "localhost")).await
            }
            AdminPlace::Tcp(host) => {
                let stream = TcpStream::connect(host).await?;
                send_over(stream, request.header(header::HOST, host)).await
            }
        }
    };
    let answer = tokio::time::timeout(ANSWER_MAX, asking).await;
    answer.unwrap_or(Err(AskError::Late))
}

async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Builder,
) -> Result<Bytes, AskError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let answering = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), BYTES_MAX).collect();
        let body = body.await.map_err(|_| AskError::Long)?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        Err(AskError::Status { status, text })
    };
    tokio::pin!(answering);
    tokio::select! {
        answer = &mut answering => return answer,
        // The peer has closed; what it sent before is read.
        ended = connection => ended?,
    }
    answering.await
}
