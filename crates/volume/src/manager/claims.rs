//! I/O servers that find nothing in their folders, and those that have one.

use super::{Manager, look};
use crate::link::{Link, Message};
use crate::meta::claims;
use gannet_vfs::Status;
use gannet_wire::nfs3::from_bytes;
use gannet_wire::volume::{Operation, RegisterRecord, Role};

impl Manager {
    /// What an I/O server says of its folder: that it is empty, or by registering that it has one.
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
                let number = <[u8; 4]>::try_from(body).map_err(|_| Status::Inval)?;
                self.may_claim(u32::from_be_bytes(number)).await?;
            }
            _ => {
                let said: RegisterRecord = from_bytes(body).map_err(|_| Status::Inval)?;
                self.is_served(said.number).await?;
            }
        }
        Ok(Vec::new())
    }

    /// That this server never had a folder with data. Nothing changes by the question: its answer may be lost.
    async fn may_claim(&self, number: u32) -> Result<(), Status> {
        if number >= self.objects.count() {
            return Err(Status::Inval);
        }
        // In volumes without notes of new servers all inodes may be looked at.
        let known =
            self.beside(move |store| look(store, |view| claims::may_have_data(view, number)));
        match known.await? {
            true => {
                tracing::warn!(number, "an I/O server with data finds its folder empty");
                Err(Status::Exist)
            }
            false => Ok(()),
        }
    }

    /// From now on files may have data on it. It hears of that before it serves.
    async fn is_served(&self, number: u32) -> Result<(), Status> {
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
