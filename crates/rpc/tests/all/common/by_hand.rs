//! A client of the crate and a server made by hand, for what a proper one would not answer.

use super::{config, in_time};
use gannet_fabric::{Listener, Provider};
use gannet_rpc::{Client, Target};
use gannet_runtime::Handle;
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use std::net::SocketAddr;
use std::rc::Rc;

/// A client and the listener of a server by hand.
pub struct ByHand {
    pub client: Client,
    pub runtime: Handle,
    pub listener: Box<dyn Listener>,
}

/// Runs a test of a client whose server is made by hand, in virtual time.
pub fn by_hand<F: Future<Output = ()> + 'static>(test: impl FnOnce(ByHand) -> F) {
    let world = World::new(21);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let address = SocketAddr::new(far.ip(), 20049);
    let listener = fabric.provider(&far).listen(address).unwrap();
    let provider: Rc<dyn Provider> = fabric.provider(&near);
    let client = Client::new(near.runtime(), Target::Rdma(provider, address), config());
    let test = test(ByHand {
        client,
        runtime: far.runtime(),
        listener,
    });
    world.run(in_time(&world, test)).unwrap();
}
