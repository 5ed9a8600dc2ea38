//! Files on chosen I/O servers, and the stripes of new files.

use super::{UNIT, Worker, name_of};
use gannet_sim::Random;
use gannet_vfs::{SetAttributes, Status};
use gannet_volume::client::Striping;
use gannet_wire::volume::{Chosen, Copies, Stripes};

/// Stripes that a volume with so many I/O servers can have.
pub(super) fn draw_stripes(random: &Random, servers: usize) -> Stripes {
    let on = match random.below(4) {
        0 => Chosen::InTurn(random.index(servers + 1) as u32),
        1 => Chosen::From {
            first: random.index(servers) as u32,
            width: random.index(servers + 1) as u32,
        },
        _ => {
            let mut left: Vec<u32> = (0..servers as u32).collect();
            let count = random.index(servers) + 1;
            let taken = (0..count).map(|_| left.swap_remove(random.index(left.len())));
            Chosen::Listed(taken.collect())
        }
    };
    let unit = UNIT << random.index(3);
    Stripes {
        unit,
        on,
        // Where all else is kept twice, this is as well.
        copies: random.chance(300).then_some(Copies::One),
    }
}

impl Worker {
    pub(super) async fn create_on(&self, name: usize, stripes: &Stripes) -> Result<(), String> {
        let (own_name, plain) = (name_of(name), SetAttributes::default());
        loop {
            let (directory, stripes) = (&self.directory, self.as_here(stripes));
            let making =
                self.fs
                    .create_striped(&self.caller, directory, &own_name, &plain, stripes);
            let made = making.await;
            let exists = self.content(name).is_some();
            match made {
                Ok(_) if exists => return Err(format!("file {name} is made twice")),
                Err(Status::Exist) if exists => return Ok(()),
                // An earlier incarnation may have made the file and not received the reply: the file is as requested
                // then.
                Ok(_) | Err(Status::Exist) => break,
                Err(error) => self.try_later("create", error).await?,
            }
        }
        self.set(name, Some(Vec::new()));
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let layout = loop {
            match self.fs.striping(&self.caller, &file).await {
                Ok(Striping::File(layout)) => break layout,
                Ok(other) => return Err(format!("file {name} has {other:?}")),
                Err(error) => self.try_later("stripes", error).await?,
            }
        };
        let (unit, count) = (layout.unit, self.stage.plan.servers as u32);
        let servers = loop {
            match self.fs.servers_of(&layout).await {
                Ok(servers) => break servers,
                Err(_) => self.try_later("groups", Status::Jukebox).await?,
            }
        };
        let servers = servers.ok_or_else(|| format!("file {name} is in no group: {layout:?}"))?;
        // With copies, the groups of a server that was away have other primaries for a while.
        let may_be_elsewhere = self.stage.plan.copies;
        let mut distinct = if may_be_elsewhere {
            layout.groups.clone()
        } else {
            servers.clone()
        };
        distinct.sort_unstable();
        distinct.dedup();
        let right = distinct.len() == servers.len()
            && match &stripes.on {
                _ if may_be_elsewhere => true,
                Chosen::Listed(listed) => servers == *listed,
                Chosen::From { first, .. } => servers.first() == Some(first),
                Chosen::InTurn(_) => true,
            };
        let width = match stripes.width() {
            0 => count,
            width => width,
        };
        // Files that go to servers in turn avoid those that are away.
        let may_be_narrow = matches!(stripes.on, Chosen::InTurn(_));
        let has_width = match servers.len() {
            0 => false,
            len if may_be_narrow => len <= width as usize,
            len => len == width as usize,
        };
        if right && unit == stripes.unit && has_width {
            Ok(())
        } else {
            Err(format!("file {name} lies on {layout:?}"))
        }
    }

    /// These stripes, in the volume of the plan: without a second copy, files would not outlive its faults.
    fn as_here(&self, stripes: &Stripes) -> Stripes {
        let copies = if self.stage.plan.copies {
            Copies::Two
        } else {
            Copies::One
        };
        Stripes {
            copies: stripes.copies.map(|_| copies),
            ..stripes.clone()
        }
    }

    pub(super) async fn stripe(&self, stripes: Option<&Stripes>) -> Result<(), String> {
        loop {
            let stripes = stripes.map(|it| self.as_here(it));
            let setting = (self.fs).set_striping(&self.caller, &self.directory, stripes);
            match setting.await {
                Ok(()) => return Ok(()),
                Err(error) => self.try_later("set stripes", error).await?,
            }
        }
    }
}
