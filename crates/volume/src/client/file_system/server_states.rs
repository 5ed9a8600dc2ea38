//! The state of a volume's servers, as a client that has the key can ask for it.

use super::VolumeFs;
use crate::convert::caller_of;
use crate::limits::{AWAY_PATIENCE, NAMES_PATIENCE};
use crate::link::{LinkError, Message};
use crate::manager::DiskSpace;
use gannet_meta::groups::Groups;
use gannet_runtime::{all, timeout};
use gannet_vfs::Credentials;
use gannet_wire::volume::{
    Address, Call, Class, CopiesAnswer, CopiesWanted, FOLDERS, GroupRecord, ManagersAnswer,
    ObjectPage, ObjectPosition, Operation, ROOT, SlotSequence, VolumeRequest,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::net::SocketAddr;

/// The state of a volume's servers.
#[derive(Debug, Clone)]
pub struct ServerStates {
    /// The volume's name for users.
    pub name: String,
    /// The manager's term; 0 before its first one.
    pub term: u64,
    /// The managers, if the active one says it.
    pub managers: Option<ManagersAnswer>,
    /// Why the manager does not answer a question about names, if it does not.
    pub names: Result<(), LinkError>,
    /// The I/O servers by their numbers.
    pub io_servers: Vec<IoServerState>,
    /// The groups. Those with one member are by choice of directories if the manager does not say it.
    pub groups: Groups,
    /// How many groups of two have members in one zone, though they must not; 0 if the manager does not say it.
    pub in_one_zone: u32,
}

/// The state of an I/O server.
#[derive(Debug, Clone)]
pub struct IoServerState {
    /// Where the manager says that it is.
    pub reported: Option<Address>,
    /// Its answer, or the reason why there is none.
    pub answer: Result<IoServerAnswer, LinkError>,
}

/// The facts that an I/O server tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoServerAnswer {
    /// Where it answers.
    pub address: SocketAddr,
    /// The latest term of a manager that it knows.
    pub term: u64,
    /// The space of its file system.
    pub space: DiskSpace,
    /// It has another disk than it had when the first files were made.
    pub has_lost_disk: bool,
}

/// A position behind the last object: the page from there on has none.
const END: ObjectPosition = ObjectPosition {
    folder: FOLDERS,
    cookie: 0,
    verifier: 0,
};

impl VolumeFs {
    /// Asks all servers of the volume for their state, the I/O servers at once. Waits a few seconds at most for those
    /// that do not answer.
    ///
    /// # Errors
    /// The error of the connection to the manager, which knows how many there are.
    pub async fn server_states(&self, caller: &Credentials) -> Result<ServerStates, LinkError> {
        let record = self.servers.ask_manager().await?;
        let manager = self.servers.manager().await?;
        let asking = (0..record.count).map(|number| {
            Box::pin(async move {
                let asking = timeout(&self.runtime, AWAY_PATIENCE, self.ask_io_server(number));
                asking.await.unwrap_or(Err(LinkError::Silent))
            })
        });
        let answers = all(asking).await;
        let names = timeout(&self.runtime, NAMES_PATIENCE, self.ask_for_root(caller)).await;
        let placed = timeout(&self.runtime, NAMES_PATIENCE, self.ask_for_copies(caller)).await;
        let placed = placed.unwrap_or(Err(LinkError::Silent)).ok();
        let chosen = placed.as_ref().map(|it| it.chosen.clone());
        let placed = placed.filter(|it| !it.same_host);
        let from = to_bytes(&VolumeRequest::default());
        let answer = manager.call(Operation::Volume, Class::Metadata, &from, &[]);
        let term = answer.await?.header.term;
        // Last: an older manager does not know the question, and ends the connection.
        let managers = timeout(&self.runtime, NAMES_PATIENCE, self.managers(caller, 0)).await;
        let servers = record.servers.into_iter().zip(answers);
        Ok(ServerStates {
            name: record.name,
            groups: groups_of(record.groups, chosen),
            in_one_zone: placed.map_or(0, |it| it.in_one_zone),
            names: names.unwrap_or(Err(LinkError::Silent)),
            term,
            managers: managers.ok().and_then(Result::ok),
            io_servers: servers
                .map(|(reported, answer)| IoServerState {
                    reported: reported.is_known().then_some(reported),
                    answer,
                })
                .collect(),
        })
    }

    async fn ask_io_server(&self, number: u32) -> Result<IoServerAnswer, LinkError> {
        let link = self.servers.io_server(number).await?;
        let used = done(
            link.call(Operation::Usage, Class::Metadata, &[], &[])
                .await?,
        )?;
        let body = to_bytes(&END);
        let listed = link.call(Operation::Objects, Class::Background, &body, &[]);
        let listed = done(listed.await?)?;
        let page: ObjectPage = from_bytes(listed.body()).map_err(|_| LinkError::Undecodable)?;
        Ok(IoServerAnswer {
            address: link.endpoint().peer_address(),
            term: used.header.term,
            space: DiskSpace::from_usage(used.body()).ok_or(LinkError::Undecodable)?,
            has_lost_disk: page.lost_below > 0,
        })
    }

    /// Asks the manager for the root's attributes, once.
    async fn ask_for_root(&self, caller: &Credentials) -> Result<(), LinkError> {
        let call = Call::Getattr {
            file: ROOT,
            wants_references: false,
        };
        self.ask_once(caller, call).await.map(|_| ())
    }

    /// Asks the manager how copies are placed, once.
    async fn ask_for_copies(&self, caller: &Credentials) -> Result<CopiesAnswer, LinkError> {
        let wanted = CopiesWanted::NOTHING;
        let answer = self.ask_once(caller, Call::Copies { wanted }).await?;
        from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)
    }

    /// Asks the manager a question, once.
    async fn ask_once(&self, caller: &Credentials, call: Call) -> Result<Message, LinkError> {
        let body = call.to_body(&caller_of(caller), &SlotSequence::default());
        let link = self.servers.manager().await?;
        let answer = link.call(call.operation(), Class::Metadata, &body, &[]);
        done(answer.await?)
    }
}

/// Groups with these records, of which these are chosen by directories. Where the manager does not say it, no group
/// with one member counts as one that lacks a copy.
fn groups_of(records: Vec<GroupRecord>, chosen: Option<Vec<u32>>) -> Groups {
    let single = |records: &[GroupRecord]| -> Vec<u32> {
        let single = (0..).zip(records);
        let single = single.filter(|(_, record)| record.members.len() < 2);
        single.map(|(number, _)| number).collect()
    };
    let chosen = chosen.unwrap_or_else(|| single(&records));
    Groups::new(records).choosing(chosen)
}

/// The reply to a request that was done.
fn done(answer: Message) -> Result<Message, LinkError> {
    answer.header.status.map_err(LinkError::Refused)?;
    Ok(answer)
}
