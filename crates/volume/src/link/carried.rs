//! Messages behind data in eager buffers, by one RDMA Write with Immediate: so Wu, Wyckoff and Panda save the second
//! message of a short transfer (section 4.1.2).
//!
//! The immediate names the slot and the length of the data. The receiver copies the message out of the buffer before it
//! looks at it, for the peer can change the buffer. Both ends must have said that they can ([`Abilities`]).
//!
//! [`Abilities`]: gannet_wire::volume::Abilities

use super::eager::EagerBuffer;
use super::error::EndReason;
use super::queue::{Composed, Hold, Outgoing, RequestMemory};
use super::{Link, LinkError, Shared};
use crate::limits::EAGER_MESSAGE_LEN;
use gannet_fabric::{RemoteAddress, Source, Span, with_memory};
use gannet_runtime::Buffer;
use gannet_wire::volume::{Carrying, HEADER_LEN};
use std::rc::Rc;

/// A message behind data, in registered memory.
pub(super) struct CarriedMessage {
    /// Data and message.
    pub(super) span: Span,
    /// The start of the peer's eager buffer.
    pub(super) target: RemoteAddress,
    pub(super) immediate: u32,
    /// The limit of the peer's requests in the message, modulo 2^32.
    pub(super) granted: u32,
    /// The owner of the memory, if that is not the span.
    pub(super) hold: Option<Hold>,
}

/// The data of a reply, and room behind it: [`EAGER_MESSAGE_LEN`] bytes.
#[derive(Debug)]
pub struct Carrier {
    /// The number of the peer's buffer.
    slot: u32,
    buffer: Buffer,
    /// Bytes of data at the start of the buffer.
    data_len: u32,
}

impl Carrier {
    /// `data_len` bytes at the start of `buffer`, for the peer's eager buffer `slot`.
    pub(crate) fn new(slot: u32, buffer: Buffer, data_len: u32) -> Carrier {
        Carrier {
            slot,
            buffer,
            data_len,
        }
    }
}

impl EagerBuffer {
    /// Whether both ends' buffers hold `data_len` bytes and a request with a body of `body_len` bytes behind them.
    fn holds(&self, data_len: u32, body_len: usize) -> bool {
        let len = data_len as usize + HEADER_LEN + body_len;
        len <= self.room as usize
    }

    /// Puts a message behind the data in our buffer. `None`: there is no room, or the connection is over.
    fn carry(&self, data_len: u32, message: &Composed) -> Option<CarriedMessage> {
        let (bytes, len) = message;
        let bytes = bytes.get(..*len as usize)?;
        let end = data_len.checked_add(*len).filter(|end| *end <= self.room)?;
        with_memory(&self.region, |memory| {
            let place = memory.get_mut(data_len as usize..end as usize)?;
            place.copy_from_slice(bytes);
            Some(())
        })??;
        Some(CarriedMessage {
            span: self.span(end),
            target: self.target,
            immediate: Carrying::new(self.number, data_len)?.to_immediate(),
            // Requests grant nothing.
            granted: 0,
            hold: None,
        })
    }
}

impl RequestMemory {
    /// The work that brings a request with this memory to the peer.
    ///
    /// # Errors
    /// `TooLong`: the memory has no room for it; see [`Link::can_carry`].
    pub(super) fn request(&self, message: Composed) -> Result<Outgoing, LinkError> {
        let (Some(slot), Some(data_len)) = (&self.slot, self.carries) else {
            return Ok(Outgoing::Send(message));
        };
        let carried = slot.carry(data_len, &message);
        carried.map(Outgoing::Carried).ok_or(LinkError::TooLong)
    }
}

impl Link {
    /// Whether a request with a body of `body_len` bytes can leave behind `data_len` bytes in our eager buffer.
    pub(crate) fn can_carry(&self, slot: &EagerBuffer, data_len: u32, body_len: usize) -> bool {
        self.shared.sends_immediates && !self.is_over() && slot.holds(data_len, body_len)
    }

    /// Whether a reply can leave behind `data_len` bytes for the peer's eager buffer of this number.
    pub(crate) fn can_carry_reply(&self, slot: u32, data_len: u64) -> bool {
        let len = data_len + u64::from(EAGER_MESSAGE_LEN);
        // Registered memory alone can be the source.
        self.shared.sends_immediates
            && self.staging().is_some()
            && self.peers_buffer(slot, len).is_some()
    }
}

impl Shared {
    /// The work that brings data and reply to the peer: one Write, or a Write and a message that does not fit behind
    /// the data. Nothing when the memory cannot be registered: the connection is over then.
    pub(super) fn carry_reply(
        self: &Rc<Self>,
        carrier: Carrier,
        message: Composed,
        granted: u32,
    ) -> [Option<Outgoing>; 2] {
        let link = Link {
            shared: Rc::clone(self),
        };
        let Carrier {
            slot,
            mut buffer,
            data_len,
        } = carrier;
        let (bytes, len) = &message;
        let place = data_len as usize..(data_len as usize + *len as usize);
        let behind = bytes.get(..*len as usize).zip(buffer.get_mut(place));
        let end = behind.map(|(bytes, place)| {
            place.copy_from_slice(bytes);
            data_len + *len
        });
        let whole = end.unwrap_or(data_len);
        let target = link.peers_buffer(slot, whole.into());
        let carrying = Carrying::new(slot, data_len);
        let (Some(target), Some(carrying)) = (target, carrying) else {
            // The request was checked with more than this length.
            self.end(LinkError::TooLong);
            return [None, None];
        };
        let memory = match link.register(buffer) {
            Ok(memory) => memory,
            Err(error) => {
                tracing::warn!(%error, "the data of a reply cannot be registered");
                self.end(EndReason::NoMemory.into());
                return [None, None];
            }
        };
        let span = memory.span(0, whole);
        let hold: Option<Hold> = Some(Box::new(memory));
        if end.is_some() {
            let carried = CarriedMessage {
                span,
                target,
                immediate: carrying.to_immediate(),
                granted,
                hold,
            };
            return [Some(Outgoing::Carried(carried)), None];
        }
        let write = Outgoing::Write {
            source: Source::Span(span),
            target,
            hold,
        };
        [Some(write), Some(Outgoing::Send(message))]
    }

    /// Takes a message that is behind data in an eager buffer of ours.
    pub(super) fn receive_carried(
        self: &Rc<Self>,
        mut buffer: Buffer,
        immediate: u32,
        len: u32,
    ) -> Result<(), EndReason> {
        let Carrying { slot, data_len } = Carrying::from_immediate(immediate);
        let unfit = EndReason::UnexpectedImmediate;
        let message_len = len.checked_sub(data_len).ok_or(unfit.clone())? as usize;
        let place = buffer.get_mut(..message_len).ok_or(unfit.clone())?;
        let region = {
            let eager = self.eager.borrow();
            let own = eager.own.as_ref().and_then(|own| own.region(slot.into()));
            own.cloned().ok_or(unfit.clone())?
        };
        // `None` also while a request works on the bytes: then the peer has broken the rules.
        let copied = with_memory(&region, |memory| {
            let bytes = memory.get(data_len as usize..len as usize)?;
            place.copy_from_slice(bytes);
            Some(())
        });
        copied.flatten().ok_or(unfit)?;
        self.receive(buffer, message_len)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::eager::tests::{LEN, run_between, transfer};
    use super::*;
    use crate::limits::{EAGER_BUFFERS, EAGER_LEN};
    use gannet_fabric::{Signal, WorkId};
    use gannet_runtime::{Handle, sleep};
    use gannet_sim::World;
    use gannet_sim::fabric::{DeviceProfile, FabricProfile, SimFabric};
    use gannet_sim::nic::{Host, ORDINARY};
    use gannet_wire::volume::{Capability, Class, Operation};
    use gannet_wire::xdr::to_bytes;
    use std::time::Duration;

    /// Runs a story between adapters.
    fn run(immediates: bool, story: impl AsyncFnOnce(Handle, Link) + 'static) {
        let world = World::new(1);
        let (server, client) = (world.add_node("io server"), world.add_node("client"));
        let device = DeviceProfile {
            immediates,
            ..DeviceProfile::PLAIN
        };
        let profile = FabricProfile {
            device: Some(device),
            ..FabricProfile::default()
        };
        let fabric = SimFabric::new(&world, profile);
        run_between(world, fabric, server, client, story);
    }

    /// A transfer through the buffers of `slot`, which are free then.
    async fn call(link: &Link, operation: Operation, slot: EagerBuffer) -> Result<(), LinkError> {
        let is_write = operation == Operation::Write;
        let rights = if is_write {
            Capability::WRITE
        } else {
            Capability::READ
        };
        let body = to_bytes(&transfer(rights, &slot));
        let carries = is_write.then_some(LEN);
        if is_write {
            assert!(link.can_carry(&slot, LEN, body.len()));
        }
        let memory = RequestMemory {
            slot: Some(slot),
            carries,
            ..RequestMemory::default()
        };
        let deadline = link.call_deadline();
        let answer = link.call_with(memory, deadline, operation, Class::Small, &body, &[]);
        let answer = answer.await?;
        assert_eq!(answer.header.status, Ok(()));
        if !is_write {
            let expected: Vec<u8> = (0..LEN).map(|at| at as u8).collect();
            let slot = answer.slot.as_ref().unwrap();
            let is_it = slot.with_bytes(LEN as usize, |bytes| bytes == expected);
            assert_eq!(is_it, Some(true));
        }
        Ok(())
    }

    #[test]
    fn data_and_request_are_one_write_and_so_are_data_and_reply() {
        let world = World::new(1);
        let fabric = SimFabric::new(&world, FabricProfile::default());
        let nodes = ["io server", "client"].map(|name| world.add_node(name));
        let hosts = nodes.each_ref().map(|node| Host::install(node, &ORDINARY));
        let [server, client] = nodes;
        run_between(world, fabric, server, client, async move |_, link| {
            // Messages and Writes of each end so far.
            let sent = || {
                let events = hosts.each_ref().map(|host| host.usage().events);
                events.map(|events| (events.messages, events.writes))
            };
            let [(replies, data), (requests, writes)] = sent();
            let rounds = 3 * u64::from(EAGER_BUFFERS);
            for _ in 0..rounds {
                let slot = link.eager_buffer(u64::from(LEN)).unwrap();
                let bytes: Vec<u8> = (0..LEN).map(|at| at as u8).collect();
                slot.fill(std::iter::once(&bytes[..])).unwrap();
                call(&link, Operation::Write, slot).await.unwrap();
                let slot = link.eager_buffer(u64::from(LEN)).unwrap();
                slot.fill(std::iter::once(&vec![0; LEN as usize][..]));
                call(&link, Operation::Read, slot).await.unwrap();
            }
            // A request of a READ and a reply to a WRITE are messages.
            let server = (replies + rounds, data + rounds);
            let client = (requests + rounds, writes + rounds);
            assert_eq!(sent(), [server, client]);
        });
    }

    #[test]
    fn what_does_not_fit_behind_the_data_is_a_message() {
        run(true, async |_, link| {
            let slot = link.eager_buffer(u64::from(EAGER_LEN)).unwrap();
            let room = EAGER_MESSAGE_LEN as usize - HEADER_LEN;
            assert!(link.can_carry(&slot, EAGER_LEN, room));
            assert!(!link.can_carry(&slot, EAGER_LEN, room + 1));
        });
        run(false, async |_, link| {
            let slot = link.eager_buffer(1).unwrap();
            assert!(
                !link.can_carry(&slot, 1, 1),
                "an adapter without immediates"
            );
        });
    }

    /// The end of a connection whose peer writes `len` bytes with this immediate.
    fn is_cut_off(immediate: u32, len: u32) {
        run(true, async move |runtime, link| {
            let slot = link.eager_buffer(1).unwrap();
            let (id, source) = (WorkId(1 << 60), Source::Span(slot.span(len)));
            let endpoint = link.endpoint();
            let posted = endpoint.post_write_with_immediate(
                id,
                source,
                slot.target,
                immediate,
                Signal::OnError,
            );
            posted.unwrap();
            endpoint.flush();
            assert!(!link.is_over());
            sleep(&runtime, Duration::from_secs(1)).await;
            assert!(link.is_over(), "{immediate:x}");
        });
    }

    #[test]
    fn a_peer_whose_immediate_leads_to_no_message_is_cut_off() {
        // No such slot.
        is_cut_off(0xff00_0000, 100);
        is_cut_off(EAGER_BUFFERS << 24, 100);
        // More data than was written, or nothing behind it.
        is_cut_off(101, 100);
        is_cut_off(100, 100);
        is_cut_off(u32::MAX >> 8, 100);
        // A message that is longer than messages are.
        is_cut_off(0, EAGER_LEN);
        // What is there is no message.
        is_cut_off(0, 100);
    }
}
