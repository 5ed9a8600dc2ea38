//! Configurations that a server refuses to start with, and changes that a read-only server refuses.

use gannet::server::ServerError;
use gannet::{Client, Error, Server, Status};
use std::fs;
use std::net::SocketAddr;

#[test]
fn other_machines_are_served_if_clients_are_named_alone() {
    let place = tempfile::tempdir().unwrap();
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let builder = || {
        Server::builder()
            .directory(place.path())
            .state_directory(place.path())
    };
    let exposed = builder().tcp(everywhere).start().err().unwrap();
    assert!(matches!(exposed, ServerError::Exposed(_)), "{exposed}");
    let named = builder()
        .tcp(everywhere)
        .allow("127.0.0.0/8".parse().unwrap());
    named.start().unwrap().stop().unwrap();
    let nothing = Server::builder().start().err().unwrap();
    assert!(matches!(nothing, ServerError::NoDirectory), "{nothing}");
}

#[test]
fn a_read_only_server_refuses_changes() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "bytes").unwrap();
    let builder = Server::builder().directory(place.path());
    let builder = builder.state_directory(place.path()).read_only();
    let server = builder.no_root_squash().start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&server.rdma_url()).await.unwrap();
        assert_eq!(client.read("file").await.unwrap(), b"bytes");
        let refused = client.write("other", "bytes").await.unwrap_err();
        assert!(matches!(refused, Error::Status(Status::Rofs)), "{refused}");
    });
}
