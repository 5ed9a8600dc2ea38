//! `gannet volume stripes`.

use crate::cli::StripesOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use crate::size::human;
use gannet_vfs::{Credentials, FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::{Striping, VolumeFs};
use gannet_wire::volume::{Chosen, Copies, Stripes, VolumeRecord};
use serde::Serialize;

/// The output of `--json`.
#[derive(Serialize)]
struct StripesJson {
    url: String,
    /// `file`, `directory`, or `volume` for a directory that leaves it to the volume.
    chosen_by: &'static str,
    stripe_unit_bytes: u32,
    stripe_width: u32,
    /// The first server of each new file in a directory; `None`: servers take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u32>,
    /// The I/O servers in the order of the stripes, for files and for directories that name them.
    #[serde(skip_serializing_if = "Option::is_none")]
    io_servers: Option<Vec<u32>>,
    /// How many I/O servers keep each byte, for files and for directories that choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<u32>,
}

/// Shows, and sets if asked to, how files are striped; makes a file if nothing is there yet.
///
/// # Errors
/// The volume cannot be reached, nothing is there, or it cannot be set.
pub(super) fn run(options: &StripesOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let url = &options.url;
        let opened = session::open_volume(&runtime, url, &options.client).await?;
        let (volume, caller) = &opened;
        let names: Vec<&[u8]> = url.path.iter().map(Vec::as_slice).collect();
        let record = volume.volume().await;
        let record = record.explain(|| format!("cannot query {url}"))?;
        let found = match volume.locate(caller, &names).await {
            Err(Status::Noent) if options.changes() => {
                make(volume, caller, &names, &record, options).await?
            }
            found => {
                let (found, _) = found.explain(|| format!("cannot find {url}"))?;
                if options.default || options.changes() {
                    set(volume, caller, &found, &record, options).await?;
                }
                found
            }
        };
        let shown = look(volume, caller, &found, &record, options).await?;
        if options.json {
            output::json(&shown)
        } else {
            output::line(&shown.text(record.count))
        }
    })
}

/// Makes an empty file with the stripes of the options; its directory gives the rest.
async fn make(
    volume: &VolumeFs,
    caller: &Credentials,
    names: &[&[u8]],
    record: &VolumeRecord,
    options: &StripesOptions,
) -> Result<FileHandle, Failure> {
    let what = || format!("cannot make {}", options.url);
    let Some((name, above)) = names.split_last() else {
        return Err(Failure::new(what(), Status::Noent));
    };
    let directory = volume.resolve(caller, above).await.explain(what)?;
    let Striping::Directory(before) = volume.striping(caller, &directory).await.explain(what)?
    else {
        return Err(Failure::new(what(), Status::Notdir));
    };
    let chosen = options.choose(before.unwrap_or(of_volume(record)));
    let attributes = SetAttributes {
        mode: Some(0o644),
        ..SetAttributes::default()
    };
    check(what(), &chosen, record)?;
    let copies = chosen.copies;
    let made = volume.create_striped(caller, &directory, name, &attributes, chosen);
    made.await.map_err(|status| refusal(what(), status, copies))
}

/// The manager checks it too, and says of it only that it cannot be.
fn check(what: String, chosen: &Stripes, record: &VolumeRecord) -> Result<(), Failure> {
    let hint = match &chosen.on {
        Chosen::Listed(_) => "name each once in --servers, with numbers from 0 on",
        _ => "give a --width up to the number of I/O servers, and a --first below it",
    };
    let checked = chosen.check(record.count);
    checked.map_err(|why| Failure::new(what, why).hint(hint))
}

async fn set(
    volume: &VolumeFs,
    caller: &Credentials,
    found: &FileHandle,
    record: &VolumeRecord,
    options: &StripesOptions,
) -> Result<(), Failure> {
    let what = || format!("cannot set the stripes of {}", options.url);
    let before = volume.striping(caller, found).await.explain(what)?;
    let Striping::Directory(before) = before else {
        let hint =
            "make another file with these stripes by this command, and copy the data into that";
        return Err(Failure::new(what(), "a file keeps the stripes it was made with").hint(hint));
    };
    let before = before.unwrap_or(of_volume(record));
    let chosen = (!options.default).then_some(options.choose(before));
    let checked = chosen.iter().try_for_each(|it| check(what(), it, record));
    checked?;
    let copies = chosen.as_ref().and_then(|it| it.copies);
    let set = volume.set_striping(caller, found, chosen).await;
    set.map_err(|status| refusal(what(), status, copies))
}

/// The error of the manager, and what to do where these copies are the reason.
fn refusal(what: String, status: Status, copies: Option<Copies>) -> Failure {
    let failure = Failure::new(what, status);
    match (status, copies) {
        (Status::Notsupp, Some(_)) => failure.hint(
            "two copies need I/O servers in two zones that are in few groups: add some with `gannet volume extend`, or allow one host for both with `gannet volume copies URL 1 --same-host`",
        ),
        (Status::Perm, Some(_)) => failure.hint(
            "only the directory's owner may choose (--uid); for the first directory that chooses so many copies that must be root or the volume's owner",
        ),
        _ => failure,
    }
}

impl StripesOptions {
    /// The striping that the options ask for, with the rest as `before`.
    fn choose(&self, before: Stripes) -> Stripes {
        let unit = self.unit.unwrap_or(before.unit);
        let width = self.width.unwrap_or(before.width());
        let on = match (&self.servers[..], self.first, before.on) {
            ([], None, on) if self.width.is_none() => on,
            ([], Some(first), _) | ([], None, Chosen::From { first, .. }) => {
                Chosen::From { first, width }
            }
            ([], None, _) => Chosen::InTurn(width),
            (servers, _, _) => Chosen::Listed(servers.to_vec()),
        };
        let copies = self.copies.and_then(|it| Copies::of(it.into()));
        let copies = copies.or(before.copies);
        Stripes { unit, on, copies }
    }
}

fn of_volume(record: &VolumeRecord) -> Stripes {
    Stripes {
        unit: record.unit,
        on: Chosen::InTurn(record.width),
        copies: None,
    }
}

async fn look(
    volume: &VolumeFs,
    caller: &Credentials,
    found: &FileHandle,
    record: &VolumeRecord,
    options: &StripesOptions,
) -> Result<StripesJson, Failure> {
    let url = options.url.to_string();
    let striping = volume.striping(caller, found).await;
    let chosen = match striping.explain(|| format!("cannot look at {url}"))? {
        Striping::File(layout) => {
            let what = || format!("cannot look at {url}");
            let servers = volume.servers_of(&layout).await.explain(what)?;
            let groups = volume.groups().await.explain(what)?;
            let members = layout.groups.iter().filter_map(|it| groups.get(*it));
            let copies = members.map(|it| it.members.len() as u32).min();
            return Ok(StripesJson {
                url,
                chosen_by: "file",
                stripe_unit_bytes: layout.unit,
                // Bounded by WIDTH_MAX.
                stripe_width: layout.groups.len() as u32,
                first: None,
                io_servers: servers,
                copies,
            });
        }
        Striping::Directory(chosen) => chosen,
    };
    let chosen_by = match chosen {
        Some(_) => "directory",
        None => "volume",
    };
    let stripes = chosen.unwrap_or(of_volume(record));
    let stripe_width = match stripes.width() {
        0 => record.count,
        width => width.min(record.count),
    };
    let copies = stripes.copies.map(Copies::number);
    let (first, io_servers) = match stripes.on {
        Chosen::InTurn(_) => (None, None),
        Chosen::From { first, .. } => (Some(first), None),
        Chosen::Listed(servers) => (None, Some(servers)),
    };
    Ok(StripesJson {
        url,
        chosen_by,
        stripe_unit_bytes: stripes.unit,
        stripe_width,
        first,
        io_servers,
        copies,
    })
}

impl StripesJson {
    fn text(&self, count: u32) -> String {
        let stripes = format!(
            "{} over {} of {count} I/O servers",
            human(u64::from(self.stripe_unit_bytes)),
            self.stripe_width,
        );
        let which = match (&self.io_servers, self.first) {
            (Some(servers), _) => {
                let numbers: Vec<String> = servers.iter().map(u32::to_string).collect();
                format!(": {}", numbers.join(" "))
            }
            (None, Some(first)) => format!(", from {first} on"),
            (None, None) => String::new(),
        };
        let by = match self.chosen_by {
            "volume" => " (as the volume says)",
            _ => "",
        };
        let copies = match self.copies {
            Some(2) => ", 2 copies",
            // Files of a volume without copies have no other number.
            Some(_) if self.chosen_by == "directory" => ", 1 copy",
            _ => "",
        };
        format!("{}: {stripes}{which}{copies}{by}", self.url)
    }
}
