//! `gannet volume copies`: how many I/O servers keep each byte of a volume.

use crate::cli::CopiesOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use gannet::admin::Finding;
use gannet_meta::groups::Groups;
use gannet_vfs::{Credentials, Status};
use gannet_volume::client::VolumeFs;
use gannet_wire::volume::{
    Copies, CopiesAnswer, CopiesOutcome, CopiesWanted, GroupRecord, Member, MemberState,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// The output of `--json`.
#[derive(Serialize)]
struct CopiesJson {
    url: String,
    /// How many I/O servers are to keep each byte of files whose directories choose none.
    copies: u32,
    /// How many I/O servers must have a write before it is answered.
    min_copies: u32,
    /// The groups of two, if there are any.
    #[serde(flatten)]
    of_two: Option<CopiesStatus>,
}

/// Shows how many copies a volume keeps, after it was given another number if one is wanted.
///
/// # Errors
/// The volume cannot be reached, or cannot have so many.
pub(super) fn run(options: &CopiesOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let url = &options.url;
        let (volume, caller) = session::open_volume(&runtime, url, &options.client).await?;
        let what = || format!("cannot query {url}");
        let changed = match options.copies {
            Some(copies) => Some(set(&volume, &caller, options, copies).await?),
            None => None,
        };
        // Asked afterwards, so that it has the records that came of it.
        let record = volume.volume().await.explain(what)?;
        let state = volume
            .set_copies(&caller, CopiesWanted::NOTHING)
            .await
            .explain(what)?;
        let groups = Groups::new(record.groups).choosing(state.chosen);
        let of_two = CopiesStatus::of(&groups);
        let min_copies = state.min_copies;
        if options.json {
            return output::json(&CopiesJson {
                url: url.to_string(),
                copies: groups.copies().number(),
                min_copies,
                of_two,
            });
        }
        let mut text = of_two.as_ref().map_or_else(
            || String::from("copies      1 of all data"),
            CopiesStatus::text,
        );
        if min_copies > 1 {
            text.push_str("; writes wait for both");
        }
        match (options.copies, changed) {
            (Some(1), Some(changed)) if changed > 0 => text.push_str(&format!(
                "\n{changed} second members are gone; `gannet volume check --repair {url}` frees their space"
            )),
            (Some(_), Some(changed)) if changed > 0 => text.push_str(&format!(
                "\n{changed} groups get a second member: `gannet volume status {url}` says when they have all data"
            )),
            _ => {}
        }
        output::line(&text)
    })
}

/// Gives the volume so many copies; returns how many groups had another number of members.
async fn set(
    volume: &VolumeFs,
    caller: &Credentials,
    options: &CopiesOptions,
    copies: u8,
) -> Result<u32, Failure> {
    let url = &options.url;
    let what = || format!("cannot give {url} {copies} copies");
    // What is not said stays.
    let before = volume.set_copies(caller, CopiesWanted::NOTHING).await;
    let before = before.explain(what)?;
    let groups = volume.groups().await.explain(what)?;
    let groups = Groups::clone(&groups).choosing(before.chosen);
    let mut of_two = groups.for_choice(Some(Copies::Two));
    let most = if of_two.next().is_some() { 2 } else { copies };
    if options.min_copies.is_some_and(|least| least > most) {
        let hint = "with one copy there is nothing to wait for";
        return Err(Failure::new(what(), "--min-copies is more than the copies").hint(hint));
    }
    let least = options.min_copies.map_or(before.min_copies, u32::from);
    let wanted = CopiesWanted {
        copies: u32::from(copies),
        same_host: options.same_host || before.same_host,
        min_copies: least.min(u32::from(most)),
    };
    match volume.set_copies(caller, wanted).await {
        Ok(CopiesAnswer {
            outcome: CopiesOutcome::Done,
            number,
            ..
        }) => Ok(number),
        Ok(answer) => {
            let (why, hint) = refusal(&answer);
            Err(Failure::new(what(), why).hint(hint))
        }
        Err(status) => Err(Failure::new(what(), status).hint_if(
            status == Status::Perm,
            "only root and the volume's owner may (--uid)",
        )),
    }
}

/// Why the manager has changed nothing, and what to do.
fn refusal(answer: &CopiesAnswer) -> (String, &'static str) {
    let number = answer.number;
    match answer.outcome {
        CopiesOutcome::Done | CopiesOutcome::OneServer => (
            String::from("two copies need two I/O servers, and it has one"),
            "add some with `gannet volume extend PATH --io-servers N` while it is not served",
        ),
        CopiesOutcome::NoSecond => (
            format!(
                "no I/O server can be the second member of group {number}: each is in its zone, or in too many groups"
            ),
            "name zones in volume.toml (`zone`), add I/O servers in other zones with `gannet volume extend`, or allow one host for both with --same-host",
        ),
        CopiesOutcome::Unserved => (
            format!("no member of group {number} has all of its data"),
            "start its I/O servers: `gannet volume status` says which are away",
        ),
        CopiesOutcome::Away => (
            format!("I/O server {number} does not answer, and has data that no other one has"),
            "start it, and try again",
        ),
        CopiesOutcome::LostDisk => (
            format!("I/O server {number} has lost a disk: what its files lost would read as zeros"),
            "copy the files that are left into a new volume",
        ),
    }
}

/// The groups that are to have two members: all but those with one that directories chose, if any has two.
pub(super) fn wanting_two(groups: &Groups) -> impl Iterator<Item = (u32, &GroupRecord)> {
    let volume_has_two = groups.copies() == Copies::Two;
    let records = (0..).zip(groups.records());
    records.filter(move |(number, record)| {
        let is_lone = volume_has_two && !groups.chosen().contains(number);
        record.members.len() > 1 || is_lone
    })
}

/// The groups of I/O servers that are to keep the same data.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CopiesStatus {
    /// Such groups.
    groups: usize,
    /// How many of them have one server with all data.
    lacking: usize,
    /// The servers that lack data of some group, and are being filled or away.
    servers: Vec<u32>,
    /// How many copies the volume keeps.
    #[serde(skip)]
    copies: Copies,
    /// Whether directories have chosen another number.
    others_chosen: bool,
}

impl CopiesStatus {
    /// The copies of a volume with these groups, if any has two members.
    pub(super) fn of(groups: &Groups) -> Option<CopiesStatus> {
        let copies = groups.copies();
        let pairs = wanting_two(groups).map(|(_, record)| record);
        let pairs: Vec<_> = pairs.collect();
        let lacks = |member: &&Member| member.state != MemberState::In;
        let lacking = (pairs.iter())
            .filter(|it| it.members.len() < 2 || it.members.iter().any(|it| lacks(&it)));
        let servers = pairs.iter().flat_map(|it| it.members.iter().filter(lacks));
        let servers: BTreeSet<u32> = servers.map(|member| member.server).collect();
        let others = match copies {
            Copies::One => Copies::Two,
            Copies::Two => Copies::One,
        };
        groups.has_several().then(|| CopiesStatus {
            groups: pairs.len(),
            lacking: lacking.count(),
            servers: servers.into_iter().collect(),
            copies,
            others_chosen: groups.for_choice(Some(others)).next().is_some(),
        })
    }

    pub(super) fn text(&self) -> String {
        let copies = match (self.copies, self.others_chosen) {
            (Copies::One, _) => "1, and 2 where a directory chose so",
            (Copies::Two, true) => "2, and 1 where a directory chose so",
            (Copies::Two, false) if self.lacking == 0 => "2 of all data",
            (Copies::Two, false) => "2",
        };
        match self.lacking {
            0 => format!("copies      {copies}"),
            lacking => format!(
                "copies      {copies}; {lacking} of {} groups lack one",
                self.groups
            ),
        }
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let servers: Vec<String> = self.servers.iter().map(u32::to_string).collect();
        (self.lacking > 0).then(|| Finding {
            what: format!(
                "{} of {} groups have one copy of their data: I/O servers {} lack it",
                self.lacking,
                self.groups,
                servers.join(", ")
            ),
            next: String::from("`gannet volume heal URL` says why of each group, and what to do"),
        })
    }
}

/// The finding that so many groups have both members in one zone.
pub(super) fn in_one_zone(groups: u32) -> Option<Finding> {
    (groups > 0).then(|| Finding {
        what: format!("{groups} groups have both copies of their data in one zone or on one host"),
        next: String::from(
            "name the zones in volume.toml, restart the manager, and place the copies anew with `gannet volume copies URL 1` and `2` (those that directories chose stay in their places); or allow it: `gannet volume copies URL N --same-host`, where N is the number that it has",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_in_one_zone_are_a_finding() {
        assert_eq!(in_one_zone(0), None);
        assert!(
            in_one_zone(3)
                .unwrap()
                .what
                .starts_with("3 groups have both")
        );
    }

    #[test]
    fn a_group_that_lacks_a_copy_is_a_finding() {
        let member = |server, state| Member { server, state };
        let group = |first, second| GroupRecord {
            epoch: 3,
            members: vec![member(0, first), member(1, second)],
        };
        let whole = group(MemberState::In, MemberState::In);
        let of = |groups: &[GroupRecord]| CopiesStatus::of(&Groups::new(groups.to_vec()));
        assert_eq!(of(&[GroupRecord::of(0)]), None);
        let status = of(&[whole.clone(), whole.clone()]).unwrap();
        assert_eq!(status.text(), "copies      2 of all data");
        assert_eq!(status.finding(), None);
        let lacking = group(MemberState::In, MemberState::Filling);
        let chosen = |groups: [GroupRecord; 3], number| {
            let status = CopiesStatus::of(&Groups::new(groups.to_vec()).choosing([number]));
            status.unwrap().text()
        };
        let single = || GroupRecord::of(0);
        assert_eq!(
            chosen([whole.clone(), lacking.clone(), single()], 2),
            "copies      2, and 1 where a directory chose so; 1 of 2 groups lack one"
        );
        assert_eq!(
            chosen([single(), single(), whole.clone()], 2),
            "copies      1, and 2 where a directory chose so"
        );
        let status = of(&[whole, lacking]).unwrap();
        assert_eq!(status.text(), "copies      2; 1 of 2 groups lack one");
        let found = status.finding().unwrap().what;
        assert!(found.ends_with("I/O servers 1 lack it"), "{found}");
    }
}
