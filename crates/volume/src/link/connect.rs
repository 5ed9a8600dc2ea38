//! The beginning of a connection: both sides prove that they know the volume's key before they take other messages.

use super::drive::{RECEIVES, control, drive};
use super::error::{EndReason, HandshakeError};
use super::holding::Holding;
use super::queue::{Outgoing, State};
use super::{Handler, Link, Message, Pool, Shared, TrafficClasses, compose};
use crate::limits::{CREDITS, CREDITS_MIN, HELLO_DEADLINE, MESSAGES_SPARE};
use crate::secret::{
    RoleKey, Secret, ServerKeys, capability_key, client_proof, same, server_proof,
};
use gannet_fabric::{
    ConnectOptions, Connected, Done, Incoming, Provider, Receives, next_completions,
};
use gannet_metrics::Reach;
use gannet_runtime::{Arena, Buffer, Dscp, Handle, Notify, timeout};
use gannet_session::limits::REST_AFTER;
use gannet_session::{Activity, CreditLimits, Credits};
use gannet_wire::volume::{
    Abilities, Accepted, HEADER_LEN, Hello, MESSAGE_MAX, MessageHeader, Operation, Refusal, Role,
    TOKEN_LEN, Token, VERSION, refusal, version_in,
};
use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

/// The identity of the connecting side: its role, volume and key, and the traffic classes of its connections.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The role.
    pub role: Role,
    /// The volume.
    pub volume: Token,
    /// The key of this role; see [`ServerKeys::between`].
    pub key: RoleKey,
    /// The traffic classes of the connections.
    pub classes: TrafficClasses,
}

/// The session of a client or server of a volume, from its start to its end, over all its connections. A server waits
/// for the end of the requests of the session's earlier connections before it takes new ones: so a request that is sent
/// again is not done again after later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session(Token);

impl Session {
    /// A new session, by a random number of 128 bits.
    pub fn new(runtime: &Handle) -> Session {
        Session(random_token(runtime))
    }

    /// The session of an I/O server in all its connections to others, which goes on when the server restarts. So what
    /// it has asked for before is over before it asks for something else.
    pub(crate) fn of_io_server(number: u32) -> Session {
        let mut token = *b"an I/O server...";
        let number = number.to_be_bytes();
        token
            .iter_mut()
            .rev()
            .zip(number)
            .for_each(|(to, byte)| *to = byte);
        Session(token)
    }

    /// Its bytes.
    pub(super) fn token(&self) -> Token {
        self.0
    }
}

/// Sixteen random bytes.
pub(crate) fn random_token(runtime: &Handle) -> Token {
    let value = u128::from(runtime.random()) << 64 | u128::from(runtime.random());
    value.to_be_bytes()
}

/// A client has all its credits from the beginning, and gets one back with every reply.
fn credit_limits(credits: u32) -> CreditLimits {
    CreditLimits {
        initial: credits,
        first: credits,
        step: 1,
        max: credits,
        // `Hello` has come when these are counted.
        spare: MESSAGES_SPARE - 1,
        idle: REST_AFTER,
    }
}

fn receives(messages: &Arena) -> Receives {
    (0..RECEIVES)
        .map(|_| {
            messages
                .take()
                .unwrap_or_else(|| Buffer::zeroed(MESSAGE_MAX))
        })
        .collect()
}

/// A server of a volume, and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerPlace {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// Its number, as [`Hello::server`] has it.
    pub server: u16,
}

impl ServerPlace {
    /// The manager at this address.
    pub fn manager(address: SocketAddr) -> ServerPlace {
        ServerPlace {
            address,
            server: Hello::MANAGER,
        }
    }

    /// The I/O server with this number in the volume, at this address.
    pub fn io_server(address: SocketAddr, number: u32) -> ServerPlace {
        ServerPlace {
            address,
            server: Hello::io_server(number),
        }
    }
}

/// Connects to a server of the volume.
///
/// # Errors
/// [`HandshakeError`]: it cannot be reached, serves another volume, is another server, or does not know the volume's
/// key.
pub async fn connect(
    runtime: &Handle,
    provider: &Rc<dyn Provider>,
    pool: &Pool,
    place: ServerPlace,
    identity: Identity,
    session: Session,
) -> Result<Link, HandshakeError> {
    let ServerPlace { address, server } = place;
    let Identity {
        role,
        volume,
        key,
        classes,
    } = identity;
    let key = key.now();
    let hello = Hello {
        role,
        server,
        volume,
        nonce: random_token(runtime),
        credits: CREDITS,
    };
    let capabilities = provider.capabilities();
    let abilities = Abilities {
        immediates: capabilities.immediates,
        ..Abilities::default()
    };
    let options = options_of(
        &hello.to_bytes(),
        abilities,
        // Its own Reads are of client-driven buffers.
        capabilities.read_depth_max,
        receives(&pool.messages),
        classes.of(&hello),
    );
    let connected = provider.connect(address, options).await;
    let endpoint = connected?;
    let accepted = Accepted::from_bytes(endpoint.private_data());
    let genuine = |it: &Accepted| {
        let proof = server_proof(key, &hello, &it.volume, &it.nonce);
        it.volume == volume && same(&proof, &it.proof)
    };
    let Some(accepted) = accepted.filter(genuine) else {
        endpoint.abort("not a server of the volume");
        return Err(HandshakeError::NotOfVolume);
    };
    enough_credits(&accepted).inspect_err(|_| endpoint.abort("too few credits"))?;
    // Bounded: this side has receives for no more replies than it asked for, and one more would end the connection.
    let state = State::connecting(accepted.credits.min(CREDITS));
    let peer = Peer {
        role: role_of(server),
        session,
        handler: None,
        activity: None,
        abilities: Abilities::behind_accepted(endpoint.private_data()),
    };
    let link = make(runtime, endpoint, pool, peer, state);
    let link_key = capability_key(key, &hello, &accepted, &session.0);
    link.endpoint().authenticate(link_key);
    let proof = client_proof(key, &hello, &accepted, &session.0);
    let body = [proof, session.0].concat();
    let message = compose(&pool.messages, control(Operation::Hello, 0), &body, &[])
        .map_err(|_| HandshakeError::TooLong)?;
    link.push(Outgoing::Send(message));
    start(&link);
    Ok(link)
}

fn enough_credits(accepted: &Accepted) -> Result<(), HandshakeError> {
    let (offered, needed) = (accepted.credits, CREDITS_MIN);
    if offered < needed {
        return Err(HandshakeError::TooFewCredits { offered, needed });
    }
    Ok(())
}

/// The options of either side, with this private data.
fn options_of(
    private_data: &[u8],
    abilities: Abilities,
    read_depth: u16,
    receives: Receives,
    traffic_class: Dscp,
) -> ConnectOptions {
    ConnectOptions {
        private_data: abilities.behind(private_data),
        ord: read_depth,
        ird: read_depth,
        receives,
        traffic_class,
        exceptions: true,
        immediates: abilities.immediates,
    }
}

/// The role of the server with this number in `Hello`.
fn role_of(server: u16) -> Role {
    match server {
        Hello::MANAGER => Role::Manager,
        _ => Role::IoServer,
    }
}

/// The peer of a connection.
struct Peer {
    role: Role,
    session: Session,
    /// The handler of the peer's requests; the connecting side has none.
    handler: Option<Rc<dyn Handler>>,
    /// The place among the accepted connections; the connecting side has none.
    activity: Option<Activity>,
    abilities: Abilities,
}

/// A connection whose task is not running yet.
fn make(runtime: &Handle, endpoint: Connected, pool: &Pool, peer: Peer, state: State) -> Link {
    let Peer {
        role,
        session,
        handler,
        activity,
        abilities,
    } = peer;
    // An endpoint that takes immediates can send them.
    let sends_immediates = endpoint.attributes().immediates && abilities.immediates;
    let client = activity.as_ref().map(|_| {
        let address = endpoint.peer_address().ip();
        let counters = pool.accepted.counters();
        counters.clients.connected(address, Reach::Native)
    });
    let shared = Rc::new(Shared {
        runtime: Handle::clone(runtime),
        endpoint,
        pool: pool.clone(),
        peer: role,
        session,
        handler,
        client,
        holding: RefCell::new(activity.map(Holding::new)),
        state: RefCell::new(state),
        eager: RefCell::default(),
        peer_abilities: abilities,
        sends_immediates,
        client_buffers: OnceCell::new(),
        looking: Default::default(),
        queued: Notify::default(),
    });
    Link { shared }
}

fn start(link: &Link) {
    let driving = Box::pin(drive(Rc::clone(&link.shared)));
    link.shared.runtime.spawn("volume connection", driving);
}

/// The options with which a server accepts peers.
pub struct AcceptOptions {
    /// The identity of the volume.
    pub volume: Token,
    /// The keys that peers must know.
    pub keys: ServerKeys,
    /// The traffic classes of connections.
    pub classes: TrafficClasses,
    /// RDMA Reads in flight in each direction.
    pub read_depth: u16,
    /// The abilities of this side.
    pub abilities: Abilities,
}

/// Accepts a peer that proves that it knows the volume's key and that `admit` allows; `handler` answers it. While the
/// peer is unauthenticated, it can lose its place to others.
///
/// # Errors
/// [`HandshakeError`]: the peer is none of this volume, closed the connection, lost its place, or is refused by
/// `admit`.
pub async fn accept(
    runtime: &Handle,
    pool: &Pool,
    options: AcceptOptions,
    incoming: Box<dyn Incoming>,
    activity: Activity,
    handler: Rc<dyn Handler>,
    admit: impl AsyncFnOnce(&Link) -> Result<(), EndReason>,
) -> Result<Link, HandshakeError> {
    let volume = options.volume;
    let (hello, incoming) = hello_of(incoming, volume).await?;
    let abilities = Abilities::behind_hello(incoming.private_data());
    let peer = incoming.peer_address().ip();
    let Some(share) = pool.accepted.join(peer) else {
        incoming.reject(Refusal::Memory.to_bytes().to_vec()).await;
        return Err(HandshakeError::OutOfReceives);
    };
    let key = options.keys.between(hello.role);
    let nonce = random_token(runtime);
    let accepted = Accepted {
        volume,
        nonce,
        proof: server_proof(key, &hello, &volume, &nonce),
        credits: hello.credits.min(CREDITS),
    };
    let options = options_of(
        &accepted.to_bytes(),
        options.abilities,
        options.read_depth,
        share.receives(),
        options.classes.of(&hello),
    );
    let accepting = timeout(runtime, HELLO_DEADLINE, incoming.accept(options)).await;
    let endpoint = accepting.map_err(|_| HandshakeError::Unfinished)??;
    let first = first_in_time(runtime, &activity, &endpoint).await;
    let (first, others) = first.inspect_err(|why| endpoint.abort(&why.to_string()))?;
    let Some(session) = session_of(&first, key, &hello, &accepted) else {
        endpoint.abort("the peer does not know the volume's key");
        return Err(HandshakeError::WrongKey);
    };
    let mut credits = Credits::new(share, credit_limits(accepted.credits), runtime.now());
    // Before the first reply: after that the peer may have a reference, and its reads must be authenticated.
    endpoint.authenticate(capability_key(key, &hello, &accepted, &session.token()));
    // `Hello`, which is counted apart from requests.
    credits.message_came();
    drop(first);
    let state = State::accepting(credits);
    activity.establish();
    let peer = Peer {
        role: hello.role,
        session,
        handler: Some(handler),
        activity: Some(activity),
        abilities,
    };
    let link = make(runtime, endpoint, pool, peer, state);
    if let Err(why) = admit(&link).await {
        link.abort(why.clone());
        return Err(why.into());
    }
    start(&link);
    for (buffer, len) in others {
        if let Err(why) = link.shared.receive(buffer, len) {
            link.abort(why);
        }
    }
    Ok(link)
}

/// Decodes the private data of a peer that connects to `volume`; refuses all others.
async fn hello_of(
    incoming: Box<dyn Incoming>,
    volume: Token,
) -> Result<(Hello, Box<dyn Incoming>), HandshakeError> {
    let hello = Hello::from_bytes(incoming.private_data());
    if let Some(hello) = hello.filter(|hello| hello.volume == volume) {
        return Ok((hello, incoming));
    }
    if let Some(version) = version_in(incoming.private_data()).filter(|it| *it != VERSION) {
        incoming.reject(refusal().to_vec()).await;
        let peer = "peer";
        return Err(HandshakeError::OtherVersion { peer, version });
    }
    let why = hello.map_or(Vec::new(), |_| Refusal::OtherVolume.to_bytes().to_vec());
    incoming.reject(why).await;
    Err(HandshakeError::OtherVolume)
}

/// The first message of an unauthenticated peer, and those that came with it; within [`HELLO_DEADLINE`], and while it
/// has a place.
async fn first_in_time(
    runtime: &Handle,
    activity: &Activity,
    endpoint: &Connected,
) -> Result<(Message, Vec<(Buffer, usize)>), HandshakeError> {
    let first = activity.unless_over(first_message(endpoint));
    let first = timeout(runtime, HELLO_DEADLINE, first).await;
    let first = first.map_err(|_| HandshakeError::Unidentified)?;
    first.ok_or(HandshakeError::Evicted)?
}

/// The peer's session, if the proof of the key is right.
fn session_of(first: &Message, key: Secret, hello: &Hello, accepted: &Accepted) -> Option<Session> {
    let (tokens, rest) = first.body().as_chunks::<TOKEN_LEN>();
    let [proof, session] = tokens.first_chunk()?;
    let expected = client_proof(key, hello, accepted, session);
    let known = first.header.operation == Operation::Hello && same(proof, &expected);
    (known && tokens.len() == 2 && rest.is_empty()).then_some(Session(*session))
}

/// The first message, and those that came with it.
async fn first_message(
    endpoint: &Connected,
) -> Result<(Message, Vec<(Buffer, usize)>), HandshakeError> {
    let mut messages = Vec::new();
    let mut completions = Vec::new();
    while messages.is_empty() {
        next_completions(&**endpoint, &mut completions)
            .await
            .map_err(EndReason::from)?;
        for completion in completions.drain(..) {
            let len = match completion.outcome.map_err(EndReason::from)? {
                Done::Received { len, .. } => len as usize,
                // No buffer was reported yet, so there is nothing to write to.
                Done::ReceivedImmediate { .. } => return Err(HandshakeError::Short),
                _ => continue,
            };
            messages.extend(completion.buffer.map(|buffer| (buffer, len)));
        }
    }
    let others = messages.split_off(1);
    let first = messages.pop().ok_or(HandshakeError::Short)?;
    let (buffer, len) = first;
    let header = MessageHeader::split(buffer.get(..len).unwrap_or_default())
        .map_err(EndReason::from)?
        .0;
    if len < HEADER_LEN {
        return Err(HandshakeError::Short);
    }
    let slot = None;
    let first = Message {
        header,
        buffer,
        slot,
    };
    Ok((first, others))
}
