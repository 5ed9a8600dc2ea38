//! Terms that messages tell of: who has missed that another manager took over is neither obeyed nor believed.
#![allow(clippy::unwrap_used)]

use crate::servers::Bed;
use gannet_dst::volume::{VOLUME, identity, keys};
use gannet_fabric::Provider;
use gannet_runtime::LocalFuture;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_volume::link::{self, Answer, Handler, Link, LinkError, Message, Pool, Session};
use gannet_volume::serve::Server;
use gannet_wire::volume::{
    Class, Hello, ObjectList, Operation, Role, Status, Term, TermCall, TermStage,
};
use gannet_wire::xdr::to_bytes;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// A manager whose term goes as the story wants.
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
            let who = (identity(Role::Client), session);
            let place = (address, Hello::MANAGER);
            link::connect(&runtime, &provider, &pool, place, who)
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
        // An older one answers: not for long, and on no connection.
        term.set(5);
        for _ in 0..2 {
            let Err(LinkError::Ended(why)) = ask(&link).await else {
                panic!("it is believed");
            };
            assert!(why.contains("term 5 is over: term 6 has begun"), "{why}");
            link = connect().await;
        }
        term.set(7);
        ask(&link).await.unwrap();
    });
    done.unwrap();
}

/// Also of what it may ask without a capability. Of terms it may always be told: that is how one begins.
#[test]
fn an_io_server_obeys_no_manager_that_is_not_of_the_present_term() {
    let bed = Bed::new(8, 1);
    let (node, address) = (bed.client.clone(), bed.addresses()[0]);
    let provider: Rc<dyn Provider> = bed.fabric.provider(&node);
    let done = bed.world.run(async move {
        let runtime = node.runtime();
        let who = (identity(Role::Manager), Session::new(&runtime));
        let place = (address, Hello::io_server(0));
        let link = link::connect(&runtime, &provider, &Pool::new(), place, who).await;
        let link = link.unwrap();
        let ask = async |operation, body: &[u8]| {
            let asked = link.call(operation, Class::Metadata, body, &[]).await;
            let header = asked.unwrap().header;
            (header.status, header.term)
        };
        let states = to_bytes(&ObjectList { files: vec![7] });
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
        // This end was never told of its term, as if the other one were another manager's.
        for operation in [Operation::States, Operation::Truncate, Operation::Unlink] {
            assert_eq!(ask(operation, &states).await, (Err(Status::Stale), 3));
        }
        let told = ask(Operation::Term, &term(TermStage::Ask, 0)).await;
        assert_eq!(told, (Ok(()), 3));
    });
    done.unwrap();
}
