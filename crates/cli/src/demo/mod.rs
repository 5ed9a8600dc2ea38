//! `gannet demo`: a server, two ways to it, real files, every byte compared, and what it cost.

mod server;
mod tree;

use crate::bench::measure::{own_cpu, rounded};
use crate::cli::{
    CallOptions, ClientOptions, DemoOptions, MemoryOptions, NativeOptions, Switch, TransferOptions,
};
use crate::copy::{Engine, Node, Place, Report};
use crate::failure::{Explain, Failure};
use crate::progress::{Progress, Work};
use crate::scratch::Scratch;
use crate::session::{self, Session};
use crate::table;
use crate::{output, size};
use gannet::ProviderKind;
use gannet::url::{Scheme, Url};
use gannet_client::Follow;
use gannet_runtime::Handle;
use serde::Serialize;
use server::Server;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::Totals;

/// Files under way at a time.
const JOBS: u16 = 16;
/// The folder of the scratch directory that is served.
const SHARE: &str = "share";
/// Bytes that count as one operation on the large file.
const BLOCK_LEN: u64 = 1 << 20;

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    /// `nfs+rdma` or `nfs`.
    path: &'static str,
    /// The copied object, and the direction.
    step: &'static str,
    bytes: u64,
    /// Objects of the tree, or blocks of 1 MiB of the large file.
    ops: u64,
    seconds: f64,
    mb_per_s: f64,
    ops_per_s: f64,
    /// Both sides together.
    cpu_s_per_gb: f64,
    client_cpu_s_per_gb: f64,
    server_cpu_s_per_gb: f64,
    /// Every byte was compared afterwards.
    verified: bool,
}

/// Serves, copies, compares, prints.
///
/// # Errors
/// Something failed, or a byte differs.
pub fn run(options: &DemoOptions) -> Result<(), Failure> {
    let scratch = Scratch::make("demo", options.scratch.as_deref())?;
    let say = |text: String| {
        if options.json {
            Ok(())
        } else {
            output::line(&text)
        }
    };
    say(format!("Scratch directory: {}", scratch.path().display()))?;
    let sources = Sources::make(scratch.path(), options.seed)?;
    let share = scratch.path().join(SHARE);
    std::fs::create_dir(&share).explain(|| format!("cannot make {}", share.display()))?;
    let server = Server::start(SHARE, scratch.path())?;
    say(format!(
        "Serving it on loopback: NFSv3 over RPC/RDMA on software iWARP at {}, over TCP at {}\n\
         Copying {} objects ({}) and one file of {} in and out over each\n",
        server.rdma,
        server.tcp,
        sources.totals.objects,
        size::human(sources.totals.bytes),
        size::human(tree::LARGE_LEN),
    ))?;
    let mut rows = Vec::new();
    session::run(async |runtime| {
        for (scheme, address) in [(Scheme::Rdma, &server.rdma), (Scheme::Tcp, &server.tcp)] {
            let demo = Demo {
                runtime: &runtime,
                scheme,
                url: parse(scheme, address)?,
                share: &share,
                scratch: scratch.path(),
                server: &server,
                sources: &sources,
            };
            demo.copy_all(&mut rows).await?;
        }
        Ok(())
    })?;
    server.stop()?;
    show(&rows, options.json)?;
    say(closing_words(&sources))
}

fn parse(scheme: Scheme, address: &str) -> Result<Url, Failure> {
    let text = format!("{}://{address}/", scheme.name());
    Url::parse(&text).explain(|| format!("cannot use {text}"))
}

/// The objects to copy.
struct Sources {
    tree: PathBuf,
    large: PathBuf,
    totals: Totals,
}

impl Sources {
    fn make(scratch: &Path, seed: u64) -> Result<Sources, Failure> {
        let (tree, large) = (scratch.join("tree"), scratch.join("large"));
        let made = tree::make(&tree, seed).and_then(|()| tree::make_large(&large, seed));
        made.map_err(|error| {
            Failure::new("cannot make the files to copy", error)
                .hint("about 1 GiB is needed; choose another place with --scratch DIR")
        })?;
        let totals =
            tree::compare(&tree, &tree).explain(|| String::from("cannot read the files back"))?;
        Ok(Sources {
            tree,
            large,
            totals,
        })
    }
}

/// One way to the server.
struct Demo<'a> {
    runtime: &'a Handle,
    scheme: Scheme,
    url: Url,
    share: &'a Path,
    scratch: &'a Path,
    server: &'a Server,
    sources: &'a Sources,
}

impl Demo<'_> {
    async fn copy_all(&self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let options = ClientOptions {
            call: CallOptions {
                timeout: None,
                crc: Switch::Off,
                provider: ProviderKind::default(),
                on_demand_paging: false,
                uid: None,
                gid: None,
            },
            memory: MemoryOptions::default(),
            native: NativeOptions::default(),
            transfers: TransferOptions::default(),
        };
        let session = Session::connect(self.runtime, &self.url, &options).await?;
        let large = Totals {
            objects: tree::LARGE_LEN / BLOCK_LEN,
            bytes: tree::LARGE_LEN,
        };
        let tree = self.sources.totals;
        rows.push(
            self.copy_in(&session, "large file in", &self.sources.large, large)
                .await?,
        );
        rows.push(
            self.copy_out(&session, "large file out", &self.sources.large, large)
                .await?,
        );
        rows.push(
            self.copy_in(&session, "tree in", &self.sources.tree, tree)
                .await?,
        );
        rows.push(
            self.copy_out(&session, "tree out", &self.sources.tree, tree)
                .await?,
        );
        for copied in [&self.sources.large, &self.sources.tree] {
            remove(&self.share.join(name_of(copied)))?;
        }
        Ok(())
    }

    /// Copies to the server and compares the copy in the served directory.
    async fn copy_in(
        &self,
        session: &Session,
        step: &'static str,
        source: &Path,
        totals: Totals,
    ) -> Result<Row, Failure> {
        let (from, node) = local(self.runtime, source).await?;
        let root = session.node(&self.url, Follow::No).await?;
        let to = Place::Remote(session.clone(), root.handle, self.url.clone());
        let row = self
            .measure(step, from, node, to, totals, name_of(source))
            .await?;
        verify(source, &self.share.join(name_of(source)))?;
        Ok(row)
    }

    /// Copies from the server and compares what came out.
    async fn copy_out(
        &self,
        session: &Session,
        step: &'static str,
        source: &Path,
        totals: Totals,
    ) -> Result<Row, Failure> {
        let url = self
            .url
            .child(std::os::unix::ffi::OsStrExt::as_bytes(name_of(source)));
        let found = session.node(&url, Follow::No).await?;
        let from = Place::Remote(session.clone(), found.handle, url);
        let out = self.scratch.join("out");
        std::fs::create_dir(&out).explain(|| format!("cannot make {}", out.display()))?;
        let (to, _) = local(self.runtime, &out).await?;
        let row = self
            .measure(
                step,
                from,
                Node::of(&found.attributes),
                to,
                totals,
                name_of(source),
            )
            .await?;
        verify(source, &out.join(name_of(source)))?;
        remove(&out)?;
        Ok(row)
    }

    async fn measure(
        &self,
        step: &'static str,
        from: Place,
        node: Node,
        to: Place,
        totals: Totals,
        name: &OsStr,
    ) -> Result<Row, Failure> {
        let (client, server, started) = (own_cpu(), self.server.cpu(), Instant::now());
        let report = Report::new(Progress::new(Work::Copy, true));
        let mut engine = Engine::new(JOBS, false, &report);
        engine.add(from, node, &to, name);
        engine.run().await;
        report
            .failures
            .report("the copy is not complete", "copied")?;
        let seconds = started.elapsed().as_secs_f64();
        let per_gb = |cpu: Duration| rounded(cpu.as_secs_f64() / (totals.bytes as f64 / 1e9), 3);
        let client = own_cpu().saturating_sub(client);
        let server = self.server.cpu().saturating_sub(server);
        Ok(Row {
            path: self.scheme.name(),
            step,
            bytes: totals.bytes,
            ops: totals.objects,
            seconds: rounded(seconds, 4),
            mb_per_s: rounded(totals.bytes as f64 / 1e6 / seconds, 1),
            ops_per_s: rounded(totals.objects as f64 / seconds, 1),
            cpu_s_per_gb: per_gb(client + server),
            client_cpu_s_per_gb: per_gb(client),
            server_cpu_s_per_gb: per_gb(server),
            // The caller compares; a row whose bytes differ is never seen.
            verified: true,
        })
    }
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

async fn local(runtime: &Handle, path: &Path) -> Result<(Place, Node), Failure> {
    let found = Place::local(runtime, path).await;
    found.explain(|| format!("cannot look at {}", path.display()))
}

fn verify(source: &Path, copy: &Path) -> Result<(), Failure> {
    match tree::compare(source, copy) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new("VERIFICATION FAILED", error)),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    removed.explain(|| format!("cannot remove {}", path.display()))
}

fn show(rows: &[Row], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return rows.iter().try_for_each(output::json);
    }
    output::line(&table_of(rows))
}

/// The rows for people; `client` and `server` are the parts of `CPU s/GB`.
fn table_of(rows: &[Row]) -> String {
    let header = [
        "path", "what", "MB/s", "ops/s", "CPU s/GB", "client", "server", "verified",
    ];
    let cells = rows.iter().map(|row| {
        [
            row.path.to_owned(),
            row.step.to_owned(),
            format!("{:.0}", row.mb_per_s),
            format!("{:.0}", row.ops_per_s),
            format!("{:.2}", row.cpu_s_per_gb),
            format!("{:.2}", row.client_cpu_s_per_gb),
            format!("{:.2}", row.server_cpu_s_per_gb),
            String::from("every byte"),
        ]
    });
    table::render(2, header, &cells.collect::<Vec<_>>())
}

fn closing_words(sources: &Sources) -> String {
    let bytes = sources.totals.bytes + tree::LARGE_LEN;
    format!(
        "ops: objects of the tree, or MiB of the large file; writes count when durable.\n\
         CPU s/GB: both sides together, then each.\n\
         Compared after each copy, every byte, name, mode, time, link: {} four times, equal.\n\
         \n\
         Serve a directory of your own to this machine, as any user:\n\
         \x20   gannet serve /path/to/directory\n\
         and mount it on an existing directory from another shell, as the same user:\n\
         \x20   gannet mount nfs+rdma://localhost/ /path/to/mount\n\
         Serve it to a network:\n\
         \x20   gannet serve /path/to/directory --allow 192.0.2.0/24\n\
         and mount it on any Linux machine there, as root (HOST is the server):\n\
         \x20   mount -t nfs -o vers=3,nolock,proto=tcp,port=2049,\
         mountport=2049,mountproto=tcp HOST:/ /mnt\n\
         or over RDMA with Linux's software iWARP (hardware RNICs are untested):\n\
         \x20   modprobe -a siw rpcrdma && rdma link add siw0 type siw netdev eth0\n\
         \x20   mount -t nfs -o vers=3,nolock,proto=rdma,port=20049,\
         mountport=2049,mountproto=tcp HOST:/ /mnt",
        size::human(bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_words_below_it_fit_a_terminal() {
        let row = |path, step| Row {
            path,
            step,
            bytes: 117 << 20,
            ops: 3000,
            seconds: 0.0123,
            mb_per_s: 12_345.6,
            ops_per_s: 123_456.7,
            cpu_s_per_gb: 12.345,
            client_cpu_s_per_gb: 10.123,
            server_cpu_s_per_gb: 12.222,
            verified: true,
        };
        let rows = [row("nfs+rdma", "large file out"), row("nfs", "tree in")];
        let table = table_of(&rows);
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }
}
