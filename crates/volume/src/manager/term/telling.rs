//! Tells I/O servers which groups they are members of, on each connection and after each change.

use super::super::copies::told_groups;
use super::Office;
use crate::limits::{ANSWERS_WITHIN, NOTE_GROUPS_RETRY};
use crate::link::Link;
use gannet_runtime::{Instant, all, timeout};
use gannet_wire::volume::{Class, Memberships, Operation};
use std::rc::Rc;

/// An I/O server that was told its groups.
pub(super) struct Told {
    /// On this connection.
    link: Link,
    /// When it is told again, unless it has confirmed that it noted them.
    again: Option<Instant>,
    /// The number of this telling.
    telling: u64,
}

impl Office {
    /// Tells the I/O servers that have accepted the term their groups. The others are told when they confirm it: before
    /// that, an earlier manager could still tell them something else.
    pub(super) async fn tell_all_groups(self: &Rc<Self>, accepted: &[bool]) {
        let accepted = (0..).zip(accepted).filter(|(_, accepted)| **accepted);
        all(accepted.map(|(number, _)| Box::pin(Rc::clone(self).tell_groups(number)))).await;
    }

    /// One of an I/O server's groups has changed: it is told them again.
    pub(in super::super) fn tell_again(self: &Rc<Self>, number: u32) {
        self.told.borrow_mut().remove(&number);
        let telling = Rc::clone(self).tell_groups(number);
        self.runtime.spawn("groups", Box::pin(telling));
    }

    /// Tells an I/O server which groups it is a member of, once on each connection.
    pub(super) async fn tell_groups(self: Rc<Self>, number: u32) {
        let link = self.links.borrow().get(&number).cloned();
        let Some(link) = link else {
            return;
        };
        let now = self.runtime.now();
        let is_told =
            |told: &Told| told.link.is(&link) && told.again.is_none_or(|again| now < again);
        if self.told.borrow().get(&number).is_some_and(is_told) {
            return;
        }
        let telling = self.tellings.get() + 1;
        self.tellings.set(telling);
        let note = |again| {
            let link = link.clone();
            let told = Told {
                link,
                again,
                telling,
            };
            self.told.borrow_mut().insert(number, told);
        };
        note(Some(now + NOTE_GROUPS_RETRY));
        let body = told_groups(&self.volume, self.servers.groups().memberships(number));
        let answer = link.call(Operation::Groups, Class::Metadata, &body, &[]);
        match answer.await.map(|answer| answer.header.status) {
            // Unless it is being told something later.
            Ok(Ok(())) if self.is_last_telling(number, telling) => note(None),
            Ok(Ok(())) => {}
            Ok(Err(status)) => {
                let what = "an I/O server cannot note its groups: it is told again";
                tracing::warn!(number, %status, "{what}");
            }
            // It is told on the next connection.
            Err(error) => tracing::debug!(number, %error, "groups are not told"),
        }
    }

    /// Tells an I/O server these groups; whether it has noted them.
    pub(in super::super) async fn tell(&self, number: u32, groups: &Memberships) -> bool {
        let link = self.links.borrow().get(&number).cloned();
        let Some(link) = link else {
            return false;
        };
        let body = told_groups(&self.volume, groups.clone());
        let telling = link.call(Operation::Groups, Class::Metadata, &body, &[]);
        let told = timeout(&self.runtime, ANSWERS_WITHIN, telling).await;
        matches!(told, Ok(Ok(answer)) if answer.header.status == Ok(()))
    }

    fn is_last_telling(&self, number: u32, telling: u64) -> bool {
        let told = self.told.borrow();
        told.get(&number).is_some_and(|it| it.telling == telling)
    }
}
