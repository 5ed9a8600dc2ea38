//! Users as this machine knows them: its files, or the directory service that it asks.

use gannet_nfs::server::UserGroups;
use nix::unistd::{Uid, User, getgrouplist};
use std::ffi::CString;
use std::io;

/// Groups by getgrouplist(3), which returns the primary group first.
pub(super) struct SystemUsers;

impl UserGroups for SystemUsers {
    fn groups_of(&self, uid: u32) -> io::Result<Vec<u32>> {
        let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
            return Ok(Vec::new());
        };
        let name = CString::new(user.name).map_err(io::Error::other)?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_its_own_group_and_a_user_that_is_not_there_in_none() {
        assert!(SystemUsers.groups_of(0).unwrap().contains(&0));
        assert_eq!(SystemUsers.groups_of(u32::MAX - 2).unwrap(), [0; 0]);
    }
}
