//! Claims and registrations of I/O servers: an empty folder may be a disk that is not mounted.

use super::{Manager, look};
use crate::link::{Link, Message};
use gannet_meta::claims;
use gannet_wire::volume::{ClaimRecord, Operation, RegisterRecord, Role, Status};
use gannet_wire::xdr::from_bytes;

impl Manager {
    /// Whether a process of an earlier release, which asks for no lease, may be the I/O server with this number.
    ///
    /// # Errors
    /// `Exist`: another process has the number.
    pub(super) fn may_register(&self, number: u32) -> Result<(), Status> {
        if self.number_leases.is_held(number, self.runtime.now()) {
            return Err(Status::Exist);
        }
        Ok(())
    }

    /// Answers a Claim of an empty folder, or a Register, which shows that the server has one.
    ///
    /// # Errors
    /// `Perm`: the peer is no I/O server. Others: see the operation.
    pub(super) async fn hear_of_folder(
        &self,
        link: &Link,
        request: &Message,
    ) -> Result<Vec<u8>, Status> {
        if link.peer() != Role::IoServer {
            return Err(Status::Perm);
        }
        let body = request.body();
        match request.header.operation {
            Operation::Claim => {
                let claim: ClaimRecord = from_bytes(body).map_err(|_| Status::Inval)?;
                if claim.is_lost {
                    let below = self.note_lost(claim.number).await?;
                    return Ok(below.to_be_bytes().to_vec());
                }
                self.may_claim(claim.number).await?;
                return Ok(0_u64.to_be_bytes().to_vec());
            }
            _ => {
                let said: RegisterRecord = from_bytes(body).map_err(|_| Status::Inval)?;
                self.is_served(said.number).await?;
            }
        }
        Ok(Vec::new())
    }

    /// Checks that this server never had a folder with data. The check changes nothing, because its reply may be lost.
    async fn may_claim(&self, number: u32) -> Result<(), Status> {
        if number >= self.objects.count() {
            return Err(Status::Inval);
        }
        // In volumes without notes of new servers all inodes may be looked at.
        let known =
            self.beside(move |store| look(store, |view| claims::may_have_data(view, number)));
        if known.await? {
            tracing::warn!(number, "an I/O server with data finds its folder empty");
            self.state.finds_no_data(number, self.runtime.wall_clock());
            Err(Status::Exist)
        } else {
            Ok(())
        }
    }

    /// The operator has given up a server's disk: files with numbers below the one that comes back may have had bytes
    /// there.
    async fn note_lost(&self, number: u32) -> Result<u64, Status> {
        if number >= self.objects.count() {
            return Err(Status::Inval);
        }
        let since = self.runtime.wall_clock().as_secs();
        let noting = self.beside(move |store| {
            let mut noted = Err(Status::Serverfault.into());
            store.commit(&mut |transaction| {
                noted = claims::note_lost(transaction, number, since);
                Ok(())
            })?;
            noted
        });
        let loss = noting.await?;
        self.state.has_lost(number, loss);
        self.new_servers.borrow_mut().remove(&number);
        self.sizes.forget_all();
        tracing::warn!(
            number,
            "the disk of an I/O server is lost: what files had there is an error to who reads it (`gannet volume check --lost` lists them)"
        );
        Ok(loss.below)
    }

    /// Notes that files may have data on a server from now on. The server gets the reply before it serves.
    pub(super) async fn is_served(&self, number: u32) -> Result<(), Status> {
        if !self.new_servers.borrow().contains(&number) {
            return Ok(());
        }
        let noted = self.beside(move |store| {
            Ok(store.commit(&mut |transaction| claims::note_served(transaction, number))?)
        });
        noted.await?;
        self.new_servers.borrow_mut().remove(&number);
        Ok(())
    }
}
