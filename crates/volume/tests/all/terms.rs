//! The manager's term in messages: peers refuse and ignore a manager of an earlier term.
#![allow(clippy::unwrap_used)]

use crate::servers::{Bed, connect_all, mover, request};
use gannet_dst::volume::{VOLUME, identity, keys};
use gannet_fabric::Provider;
use gannet_runtime::{Buffer, LocalFuture};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_volume::client::data::{DataError, Request};
use gannet_volume::link::{
    self, Answer, EndReason, Handler, Link, LinkError, Message, Pool, ServerPlace, Session,
};
use gannet_volume::serve::Server;
use gannet_wire::volume::{
    Capability, Class, ObjectId, ObjectList, Operation, Role, Stability, Status, Term, TermCall,
    TermStage,
};
use gannet_wire::xdr::to_bytes;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A manager with a term that the test sets.
struct Elected(Rc<Cell<u64>>);

impl Handler for Elected {
    fn term(&self) -> u64 {
        self.0.get()
    }

    fn answer(self: Rc<Self>, _: Link, _: Message) -> LocalFuture<Answer> {
        Box::pin(async { Answer::of(Ok(Vec::new())) })
    }
}

#[test]
fn a_client_believes_no_manager_whose_term_is_over() {
    let world = World::new(7);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (server, client) = (world.add_node("manager"), world.add_node("client"));
    let term = Rc::new(Cell::new(0));
    let manager = Rc::new(Elected(Rc::clone(&term)));
    let serving = Server::new(server.runtime(), VOLUME, keys(), manager);
    let provider: Rc<dyn Provider> = fabric.provider(&server);
    let address = SocketAddr::new(server.ip(), 20050);
    let listener = provider.listen(address).unwrap();
    let serving = async move { serving.serve(provider, listener).await.unwrap() };
    server.runtime().spawn("manager", Box::pin(serving));
    let provider: Rc<dyn Provider> = fabric.provider(&client);
    let done = world.run(async move {
        let runtime = client.runtime();
        let (pool, session) = (Pool::new(), Session::new(&runtime));
        let connect = async || {
            let (identity, session) = (identity(Role::Client), session);
            let place = ServerPlace::manager(address);
            link::connect(&runtime, &provider, &pool, place, identity, session)
                .await
                .unwrap()
        };
        let mut link = connect().await;
        let ask = async |link: &Link| {
            link.call(Operation::Volume, Class::Metadata, &[], &[])
                .await
        };
        for number in [0, 5, 6, 0, 6] {
            term.set(number);
            assert_eq!(ask(&link).await.unwrap().header.term, number);
        }
        // A manager of an older term answers: each connection ends at its first reply.
        term.set(5);
        for _ in 0..2 {
            let Err(LinkError::Ended(why)) = ask(&link).await else {
                panic!("it is believed");
            };
            assert_eq!(why, EndReason::TermOver { term: 5, later: 6 });
            link = connect().await;
        }
        term.set(7);
        ask(&link).await.unwrap();
    });
    done.unwrap();
}

/// The rule covers requests without a capability too. Only TERM is always admitted, because a term begins with it.
#[test]
fn an_io_server_obeys_no_manager_that_is_not_of_the_present_term() {
    let bed = Bed::new(8, 1);
    let (node, address) = (bed.client.clone(), bed.addresses()[0]);
    let provider: Rc<dyn Provider> = bed.fabric.provider(&node);
    let done = bed.world.run(async move {
        let runtime = node.runtime();
        let (identity, session) = (identity(Role::Manager), Session::new(&runtime));
        let place = ServerPlace::io_server(address, 0);
        let link = link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await;
        let link = link.unwrap();
        let ask = async |operation, body: &[u8]| {
            let asked = link.call(operation, Class::Metadata, body, &[]).await;
            let header = asked.unwrap().header;
            (header.status, header.term)
        };
        let states = to_bytes(&ObjectList {
            objects: vec![ObjectId { group: 0, file: 7 }],
        });
        assert_eq!(ask(Operation::States, &states).await, (Ok(()), 0));
        let term = |stage, number| {
            let token = [number as u8; 16];
            let term = Term { number, token };
            let change = 0;
            to_bytes(&TermCall {
                stage,
                term,
                change,
            })
        };
        let proposed = ask(Operation::Term, &term(TermStage::Propose, 3)).await;
        assert_eq!(proposed, (Ok(()), 3));
        // This connection never had the term, like that of another manager.
        for operation in [Operation::States, Operation::Truncate, Operation::Unlink] {
            assert_eq!(ask(operation, &states).await, (Err(Status::Stale), 3));
        }
        let told = ask(Operation::Term, &term(TermStage::Ask, 0)).await;
        assert_eq!(told, (Ok(()), 3));
    });
    done.unwrap();
}

/// A manager that was paused may still issue capabilities, and clients hold some for a minute.
#[test]
fn an_io_server_moves_no_bytes_by_a_capability_of_an_earlier_term() {
    let bed = Bed::new(9, 1);
    let (node, addresses) = (bed.client.clone(), bed.addresses());
    let fabric = Rc::clone(&bed.fabric);
    let done = bed.world.run(async move {
        let runtime = node.runtime();
        let targets = connect_all(&fabric, &node, &addresses, 4096).await;
        let provider: Rc<dyn Provider> = fabric.provider(&node);
        let (identity, session) = (identity(Role::Manager), Session::new(&runtime));
        let place = ServerPlace::io_server(addresses[0], 0);
        let link = link::connect(&runtime, &provider, &Pool::new(), place, identity, session).await;
        let link = link.unwrap();
        let begin = async |number: u64| {
            let body = to_bytes(&TermCall {
                stage: TermStage::Propose,
                term: Term {
                    number,
                    token: [number as u8; 16],
                },
                change: 0,
            });
            let told = link
                .call(Operation::Term, Class::Metadata, &body, &[])
                .await;
            assert_eq!(told.unwrap().header.status, Ok(()));
        };
        let far = Duration::from_secs(u64::from(u32::MAX));
        let rights = Capability::READ | Capability::WRITE;
        let write_by = async |term, byte| {
            let request = Request {
                capability: keys().grant(term, 1, rights, far),
                ..request(0, 1)
            };
            let mut buffer = Buffer::from_vec(vec![byte]);
            let mover = mover(&targets);
            let written = mover.write(&targets, Stability::FileSync, &request, &mut buffer);
            written.await.map(|_| ())
        };
        let read_by = async |term| {
            let request = Request {
                capability: keys().grant(term, 1, rights, far),
                ..request(0, 1)
            };
            let mut buffer = Buffer::zeroed(1);
            let read = mover(&targets).read(&targets, &request, &mut buffer).await;
            read.map(|_| buffer[0])
        };
        let stale = DataError::Refused {
            index: 0,
            status: Status::Stale,
        };
        begin(3).await;
        assert_eq!(write_by(2, 1).await, Err(stale.clone()));
        assert_eq!(write_by(3, 2).await, Ok(()));
        // The capability of a manager that this server has not heard of yet.
        assert_eq!(write_by(4, 3).await, Ok(()));
        begin(5).await;
        for term in [2, 3, 4] {
            assert_eq!(write_by(term, 9).await, Err(stale.clone()));
            assert_eq!(read_by(term).await, Err(stale.clone()));
        }
        assert_eq!(read_by(5).await, Ok(3));
    });
    done.unwrap();
}
