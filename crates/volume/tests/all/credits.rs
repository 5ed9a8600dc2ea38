//! The requests that a client may send before a reply, and the end of a connection that sends more.
#![allow(clippy::unwrap_used)]

use gannet_dst::volume::{VOLUME, identity, keys};
use gannet_fabric::{
    ConnectOptions, Connected, Done, Endpoint, Provider, SendOptions, Source, WorkId,
    next_completions,
};
use gannet_runtime::{Buffer, LocalFuture, all, timeout};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_volume::limits::{CREDITS, CREDITS_MIN};
use gannet_volume::link::{self, Answer, Handler, Link, Message, Pool, ServerPlace, Session};
use gannet_volume::secret::{client_proof, server_proof};
use gannet_volume::serve::Server;
use gannet_wire::volume::{
    Accepted, Class, Hello, Kind, MESSAGE_MAX, MessageHeader, Operation, Role, Status, Token,
};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(10);

/// Virtual time that a test may take before it fails.
const TEST_TIME_MAX: Duration = Duration::from_secs(600);

/// Answers [`Operation::Usage`], refuses [`Operation::Commit`], and lets all other requests wait.
#[derive(Default)]
struct Choosy {
    /// Requests that wait for a reply.
    waiting: Cell<u32>,
}

impl Handler for Choosy {
    fn answer(self: Rc<Self>, _: Link, request: Message) -> LocalFuture<Answer> {
        Box::pin(async move {
            match request.header.operation {
                Operation::Usage => Answer::of(Ok(Vec::new())),
                Operation::Commit => Answer::of(Err(Status::Inval)),
                _ => {
                    self.waiting.set(self.waiting.get() + 1);
                    std::future::pending().await
                }
            }
        })
    }
}

fn send(endpoint: &dyn Endpoint, kind: Kind, operation: Operation, body: &[u8]) {
    let header = MessageHeader {
        kind,
        operation,
        class: Class::Metadata,
        status: Ok(()),
        credits: 0,
        id: 1,
        term: 0,
        body_len: body.len() as u32,
        data_len: 0,
    };
    let message = [&header.to_bytes(), body].concat();
    let source = Source::Buffer {
        len: message.len() as u32,
        buffer: Buffer::from_vec(message),
    };
    let sent = endpoint.post_send(WorkId(1 << 40), source, SendOptions::default());
    sent.unwrap();
    endpoint.flush();
}

/// Connects at the level of messages, as the client with this session.
async fn connect(provider: &Rc<dyn Provider>, server: SocketAddr, session: Token) -> Connected {
    connect_asking(provider, server, session, CREDITS).await.0
}

/// As [`connect`], with a demand of this many credits; also returns the credits that the server grants.
async fn connect_asking(
    provider: &Rc<dyn Provider>,
    server: SocketAddr,
    session: Token,
    credits: u32,
) -> (Connected, u32) {
    let hello = Hello {
        role: Role::Client,
        server: Hello::io_server(0),
        volume: VOLUME,
        nonce: session,
        credits,
    };
    // Receives for all replies of a test.
    let receives = (0..3 * CREDITS).map(|_| Buffer::zeroed(MESSAGE_MAX));
    let options = ConnectOptions {
        private_data: hello.to_bytes().to_vec(),
        receives: receives.collect(),
        ..ConnectOptions::default()
    };
    let endpoint = provider.connect(server, options).await.unwrap();
    let accepted = Accepted::from_bytes(endpoint.private_data()).unwrap();
    let proof = client_proof(keys().for_clients(), &hello, &accepted, &session);
    let body = [proof, session].concat();
    send(&*endpoint, Kind::Control, Operation::Hello, &body);
    (endpoint, accepted.credits)
}

/// The credits in this many replies, in order; an error if the connection ends before.
async fn replies(endpoint: &Connected, count: usize) -> Result<Vec<u32>, String> {
    let (mut completions, mut told) = (Vec::new(), Vec::new());
    while told.len() < count {
        let next = next_completions(&**endpoint, &mut completions).await;
        next.map_err(|gone| gone.to_string())?;
        for completion in completions.drain(..) {
            if let (Ok(Done::Received { len, .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
            {
                told.push(
                    MessageHeader::split(&buffer[..len as usize])
                        .unwrap()
                        .0
                        .credits,
                );
            }
        }
    }
    Ok(told)
}

/// Runs a test in virtual time; it fails if it waits for an event that never comes.
fn in_time<F: Future>(world: &World, test: F) -> impl Future<Output = F::Output> + use<F> {
    let clock = world.add_node("clock").runtime();
    async move {
        let ended = timeout(&clock, TEST_TIME_MAX, test).await;
        ended.expect("the test comes to its end")
    }
}

/// Runs a test with a [`Choosy`] server.
fn run(story: impl AsyncFnOnce(Node, Rc<dyn Provider>, SocketAddr) + 'static) {
    run_with(async move |client, provider, server, _| story(client, provider, server).await);
}

/// As [`run`], with access to the server's handler.
fn run_with(story: impl AsyncFnOnce(Node, Rc<dyn Provider>, SocketAddr, Rc<Choosy>) + 'static) {
    let world = World::new(5);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (server, client) = (world.add_node("server"), world.add_node("client"));
    let choosy = Rc::new(Choosy::default());
    let handler = Rc::clone(&choosy) as Rc<dyn Handler>;
    let serving = Server::new(server.runtime(), VOLUME, keys(), handler);
    let provider: Rc<dyn Provider> = fabric.provider(&server);
    let address = SocketAddr::new(server.ip(), 20050);
    let listener = provider.listen(address).unwrap();
    let serving = async move { serving.serve(provider, listener).await.unwrap() };
    server.runtime().spawn("server", Box::pin(serving));
    let provider: Rc<dyn Provider> = fabric.provider(&client);
    let story = async move { story(client, provider, address, choosy).await };
    world.run(in_time(&world, story)).unwrap();
}

#[test]
fn every_reply_allows_one_request_more() {
    run(async |_, provider, server| {
        let peer = connect(&provider, server, [1; 16]).await;
        for round in 1..=3 {
            (0..CREDITS).for_each(|_| send(&*peer, Kind::Request, Operation::Usage, &[]));
            let told = replies(&peer, CREDITS as usize).await.unwrap();
            let expected = CREDITS * round + 1..=CREDITS * (round + 1);
            assert_eq!(told, expected.collect::<Vec<u32>>());
        }
    });
}

#[test]
fn a_request_that_is_refused_returns_its_credit() {
    run(async |_, provider, server| {
        let peer = connect(&provider, server, [1; 16]).await;
        for round in 1..=3 {
            for at in 0..CREDITS {
                let operation = [Operation::Commit, Operation::Usage][at as usize % 2];
                send(&*peer, Kind::Request, operation, &[]);
            }
            let told = replies(&peer, CREDITS as usize).await.unwrap();
            let expected = CREDITS * round + 1..=CREDITS * (round + 1);
            assert_eq!(told, expected.collect::<Vec<u32>>());
        }
    });
}

#[test]
fn a_peer_that_connects_again_has_all_its_credits_and_no_more() {
    run_with(async |client, provider, server, choosy| {
        let runtime = client.runtime();
        for connection in 1..=3 {
            let (peer, told) = connect_asking(&provider, server, [connection; 16], CREDITS).await;
            assert_eq!(told, CREDITS);
            // The server answers some of the requests; the others are under way when the connection ends.
            (0..5).for_each(|_| send(&*peer, Kind::Request, Operation::Usage, &[]));
            let told = replies(&peer, 5).await.unwrap();
            assert_eq!(told, (CREDITS + 1..=CREDITS + 5).collect::<Vec<u32>>());
            (0..CREDITS).for_each(|_| send(&*peer, Kind::Request, Operation::Volume, &[]));
            let waiting = timeout(&runtime, SOON, replies(&peer, 1)).await;
            assert!(waiting.is_err(), "all of them are within the credits");
            assert_eq!(choosy.waiting.get(), u32::from(connection) * CREDITS);
            send(&*peer, Kind::Request, Operation::Volume, &[]);
            let ended = timeout(&runtime, SOON, replies(&peer, 1)).await;
            assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
            assert_eq!(choosy.waiting.get(), u32::from(connection) * CREDITS);
        }
    });
}

#[test]
fn a_server_grants_the_smaller_of_both_sides_credits() {
    run(async |client, provider, server| {
        let (greedy, told) = connect_asking(&provider, server, [1; 16], 1000).await;
        assert_eq!(told, CREDITS);
        drop(greedy);
        let (modest, told) = connect_asking(&provider, server, [2; 16], 4).await;
        assert_eq!(told, 4);
        for round in 1..=3 {
            (0..4).for_each(|_| send(&*modest, Kind::Request, Operation::Usage, &[]));
            let told = replies(&modest, 4).await.unwrap();
            assert_eq!(
                told,
                (4 * round + 1..=4 * (round + 1)).collect::<Vec<u32>>()
            );
        }
        // One request more at a time than the server granted.
        (0..5).for_each(|_| send(&*modest, Kind::Request, Operation::Volume, &[]));
        let ended = timeout(&client.runtime(), SOON, replies(&modest, 1)).await;
        assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
    });
}

/// With fewer credits, waiting requests could keep back the request that they wait for.
#[test]
fn a_client_refuses_a_server_that_grants_too_few_credits() {
    let world = World::new(5);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (server, client) = (world.add_node("server"), world.add_node("client"));
    let address = SocketAddr::new(server.ip(), 20050);
    let provider: Rc<dyn Provider> = fabric.provider(&server);
    let mut listener = provider.listen(address).unwrap();
    let accepting = async move {
        let incoming = listener.accept().await.unwrap();
        let hello = Hello::from_bytes(incoming.private_data()).unwrap();
        let (key, nonce) = (keys().for_clients(), [3; 16]);
        let accepted = Accepted {
            volume: VOLUME,
            nonce,
            proof: server_proof(key, &hello, &VOLUME, &nonce),
            credits: CREDITS_MIN - 1,
        };
        let options = ConnectOptions {
            private_data: accepted.to_bytes().to_vec(),
            ..ConnectOptions::default()
        };
        let _endpoint = incoming.accept(options).await;
        std::future::pending::<()>().await;
    };
    server.runtime().spawn("server", Box::pin(accepting));
    let provider: Rc<dyn Provider> = fabric.provider(&client);
    let story = async move {
        let runtime = client.runtime();
        let (identity, session) = (identity(Role::Client), Session::new(&runtime));
        let place = ServerPlace::io_server(address, 0);
        let refused =
            link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("requests at a time"), "{said}");
    };
    world.run(in_time(&world, story)).unwrap();
}

/// The server answers no request, so those beyond its credits wait at the client.
#[test]
fn a_client_asks_for_exactly_as_much_at_a_time_as_it_is_allowed() {
    run_with(async |client, provider, server, choosy| {
        let runtime = client.runtime();
        let (identity, session) = (identity(Role::Client), Session::new(&runtime));
        let place = ServerPlace::io_server(server, 0);
        let link = link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await;
        let link = link.unwrap();
        let ask = |_| Box::pin(link.call(Operation::Volume, Class::Metadata, &[], &[]));
        let answers = timeout(&runtime, SOON, all((0..3 * CREDITS).map(ask))).await;
        assert!(answers.is_err(), "who exceeds its credits is cut off");
        assert_eq!(choosy.waiting.get(), CREDITS);
    });
}

#[test]
fn exceeding_the_credits_ends_only_the_clients_own_connection() {
    run(async |client, provider, server| {
        let modest = connect(&provider, server, [1; 16]).await;
        let greedy = connect(&provider, server, [2; 16]).await;
        (0..CREDITS).for_each(|_| send(&*greedy, Kind::Request, Operation::Volume, &[]));
        let waiting = timeout(&client.runtime(), SOON, replies(&greedy, 1)).await;
        assert!(waiting.is_err(), "all of them are within the credits");
        send(&*greedy, Kind::Request, Operation::Volume, &[]);
        let ended = timeout(&client.runtime(), SOON, replies(&greedy, 1)).await;
        assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
        (0..CREDITS).for_each(|_| send(&*modest, Kind::Request, Operation::Usage, &[]));
        let told = timeout(&client.runtime(), SOON, replies(&modest, CREDITS as usize)).await;
        assert_eq!(told.unwrap().unwrap().len(), CREDITS as usize);
    });
}
