//! The cost of the public interface: the same operations through `gannet::Client`, whose connection has a thread of
//! its own, and on the core of the connection itself.
//!
//! Samples come in threes: inner, public, inner. The second is compared with the mean of its neighbours, and the third
//! with the first, as the control.

use super::median::{median, median_interval};
use crate::cli::InterfaceOptions;
use gannet::local::{Remote, connect};
use gannet::url::Url;
use gannet::{Buffer, Client, ConnectOptions, File, FileReader, Server};
use gannet_cli::bench::measure::{rounded, scatter};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::scratch::Scratch;
use gannet_cli::{output, session, size, table};
use gannet_client::{Files, Node, Transfer};
use serde::Serialize;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Bytes of the file that is read.
const FILE_LEN: u64 = 64 << 20;
/// Bytes that a program takes out of a stream at a time.
const STREAM_LEN: usize = 256 << 10;
const NAME: &str = "file";

/// The operation that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Stat,
    /// Reads of this many bytes, at random places.
    Read(usize),
    /// A read of the whole file, from its start.
    Stream,
}

/// The work of each row, and how much of it is under way at a time.
const ROWS: [(Work, usize); 7] = [
    (Work::Stat, 1),
    (Work::Stat, 32),
    (Work::Read(4 << 10), 1),
    (Work::Read(4 << 10), 32),
    (Work::Read(1 << 20), 1),
    (Work::Read(1 << 20), 4),
    (Work::Stream, 1),
];

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    op: &'static str,
    /// Bytes of an operation; null for an operation that moves none.
    record: Option<usize>,
    in_flight: usize,
    inner_per_s: f64,
    public_per_s: f64,
    /// The public rate over the inner one: the median of all threes. `ratio_low` and `ratio_high` bound it with 95 %.
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    /// The second inner rate of a three over the first: the median.
    control: f64,
}

/// Measures and prints.
///
/// # Errors
/// A server cannot be run here, or an operation fails.
pub(super) fn run(options: &InterfaceOptions) -> Result<(), Failure> {
    let what = || String::from("cannot serve a scratch directory");
    let scratch = Scratch::make("interface", options.scratch.as_deref())?;
    std::fs::write(scratch.path().join(NAME), vec![7; FILE_LEN as usize]).explain(what)?;
    let builder = Server::builder().directory(scratch.path());
    let server = builder.state_directory(scratch.path()).no_root_squash();
    let server = server.start().explain(what)?;
    let measured = ROWS.map(|(work, in_flight)| {
        let url = server.rdma_url();
        let row = measure(&url, work, in_flight, options)?;
        if options.json {
            output::json(&row)?;
        } else {
            output::report(&format!("{} x{in_flight}: {}", row.op, row.ratio));
        }
        Ok(row)
    });
    let rows = measured
        .into_iter()
        .collect::<Result<Vec<Row>, Failure>>()?;
    server.stop().explain(what)?;
    if options.json { Ok(()) } else { show(&rows) }
}

/// One row, by threes of samples.
fn measure(
    url: &str,
    work: Work,
    in_flight: usize,
    options: &InterfaceOptions,
) -> Result<Row, Failure> {
    let what = || format!("cannot read from {url}");
    let program = Program::start().explain(what)?;
    let client = program.block_on(Client::connect(url)).explain(what)?;
    let file = program.block_on(client.open(NAME)).explain(what)?;
    let (mut samples, place) = (Vec::new(), Url::parse(url).explain(what)?);
    session::run(async |runtime| {
        let connection = connect(&runtime, &place, &ConnectOptions::default()).await;
        let connection = connection.explain(what)?;
        let node = connection.files.stat(NAME.as_bytes()).await.explain(what)?;
        let inner = async || {
            let sample = Arc::new(Sample::new(options.sample));
            let begin = |number| {
                let (sender, done) = oneshot::channel();
                let (files, sample) = (connection.files.clone(), Arc::clone(&sample));
                let task = async move {
                    // An error means that no receiver waits any more.
                    let _ = sender.send(inner(&files, &node, work, &sample, number).await);
                };
                runtime.spawn("bench", Box::pin(task));
                done
            };
            let begun: Vec<_> = (0..in_flight).map(begin).collect();
            for done in begun {
                done.await.explain(what)?.explain(what)?;
            }
            Ok::<f64, Failure>(sample.rate())
        };
        // The first operations find nothing warm.
        inner().await?;
        for _ in 0..options.threes {
            let before = inner().await?;
            let (client, file) = (client.clone(), file.clone());
            let public = public(client, file, work, in_flight, options.sample);
            let public = program.run(public).await.explain(what)?.explain(what)?;
            samples.push([before, public, inner().await?]);
        }
        Ok(())
    })?;
    Ok(Row::new(work, in_flight, &samples))
}

/// A program with an executor of its own, on a thread of its own.
struct Program(Arc<Runtime>);

impl Program {
    fn start() -> io::Result<Program> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Program(Arc::new(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.block_on(work)
    }

    /// Runs `work` on the program's thread; fails if that cannot be had.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let (runtime, (sender, done)) = (Arc::clone(&self.0), oneshot::channel());
        let thread = std::thread::Builder::new().name(String::from("program"));
        thread.spawn(move || {
            // An error means that no receiver waits any more.
            let _ = sender.send(runtime.block_on(work));
        })?;
        done.await.map_err(io::Error::other)
    }
}

/// Counts operations since its start.
struct Sample {
    began: Instant,
    max: Duration,
    done: AtomicU64,
}

impl Sample {
    fn new(max: Duration) -> Sample {
        Sample {
            began: Instant::now(),
            max,
            done: AtomicU64::new(0),
        }
    }

    fn goes_on(&self) -> bool {
        self.began.elapsed() < self.max
    }

    fn add(&self, count: u64) -> u64 {
        self.done.fetch_add(count, Ordering::Relaxed)
    }

    /// Operations a second.
    fn rate(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

/// Where the operation with this number reads `len` bytes.
fn place(number: u64, len: usize) -> u64 {
    let places = FILE_LEN / len as u64;
    scatter(number) % places * len as u64
}

async fn inner(
    files: &Files<Remote>,
    node: &Node,
    work: Work,
    sample: &Sample,
    number: usize,
) -> Result<(), gannet_client::Error> {
    let (mut spare, mut next) = (Buffer::default(), (number as u64) << 32);
    while sample.goes_on() {
        next += 1;
        match work {
            Work::Stat => {
                files.objects().attributes(&node.handle).await?;
                sample.add(1);
            }
            Work::Read(len) => {
                if spare.len() < len {
                    spare = Buffer::zeroed(len);
                }
                let (place, buffer) = (place(next, len), std::mem::take(&mut spare));
                let read = files.objects();
                let read = read.read_into(&node.handle, place, len as u32, buffer);
                (_, spare) = read.await?;
                sample.add(1);
            }
            Work::Stream => {
                let transfer = Transfer::default();
                let mut reader = files.read_file(&node.handle, 0..u64::MAX, transfer);
                let mut own = vec![0; STREAM_LEN];
                while let Some(block) = reader.next().await? {
                    // A program takes them out of the stream on either side.
                    for part in block.data().chunks(STREAM_LEN) {
                        if let Some(room) = own.get_mut(..part.len()) {
                            room.copy_from_slice(part);
                        }
                        std::hint::black_box(&own);
                    }
                    sample.add(block.data().len() as u64);
                    reader.recycle(block.buffer);
                }
            }
        }
    }
    Ok(())
}

/// The rate of a sample through the public interface.
async fn public(
    client: Client,
    file: File,
    work: Work,
    in_flight: usize,
    max: Duration,
) -> Result<f64, gannet::Error> {
    let sample = Arc::new(Sample::new(max));
    let task = |number: usize| {
        let one = public_one(
            client.clone(),
            file.clone(),
            work,
            Arc::clone(&sample),
            number,
        );
        tokio::spawn(one)
    };
    let tasks: Vec<_> = (0..in_flight).map(task).collect();
    for task in tasks {
        task.await.map_err(|_| gannet::Error::Ended)??;
    }
    Ok(sample.rate())
}

async fn public_one(
    client: Client,
    file: File,
    work: Work,
    sample: Arc<Sample>,
    number: usize,
) -> Result<(), gannet::Error> {
    let (mut spare, mut next) = (Buffer::default(), (number as u64) << 32);
    // `client` keeps the connection.
    let _client = client;
    while sample.goes_on() {
        next += 1;
        match work {
            Work::Stat => {
                file.attributes().await?;
                sample.add(1);
            }
            Work::Read(len) => {
                if spare.len() < len {
                    spare = Buffer::zeroed(len);
                }
                let (place, buffer) = (place(next, len), std::mem::take(&mut spare));
                (_, spare) = file.read_into(place, buffer).await?;
                sample.add(1);
            }
            Work::Stream => {
                let (mut reader, mut own) = (file.reader(0)?, vec![0; STREAM_LEN]);
                loop {
                    let read = take_out(&mut reader, &mut own).await;
                    let count = read.map_err(|_| gannet::Error::Ended)?;
                    if count == 0 {
                        break;
                    }
                    sample.add(count as u64);
                }
            }
        }
    }
    Ok(())
}

/// Copies the next bytes out of a stream as a program does; returns 0 at its end.
async fn take_out(reader: &mut FileReader, own: &mut [u8]) -> io::Result<usize> {
    std::future::poll_fn(|context| {
        let mut room = ReadBuf::new(own);
        ready!(Pin::new(&mut *reader).poll_read(context, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    })
    .await
}

impl Row {
    fn new(work: Work, in_flight: usize, samples: &[[f64; 3]]) -> Row {
        let of = |pick: fn(&[f64; 3]) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let ratios = of(|[before, public, after]| 2.0 * public / (before + after));
        let (low, high) = median_interval(&ratios);
        Row {
            op: match work {
                Work::Stat => "stat",
                Work::Read(_) => "randread",
                Work::Stream => "stream",
            },
            record: match work {
                Work::Read(len) => Some(len),
                Work::Stat | Work::Stream => None,
            },
            in_flight,
            inner_per_s: rounded(median(&of(|[before, _, after]| (before + after) / 2.0)), 0),
            public_per_s: rounded(median(&of(|[_, public, _]| *public)), 0),
            ratio: rounded(median(&ratios), 3),
            ratio_low: rounded(low, 3),
            ratio_high: rounded(high, 3),
            control: rounded(median(&of(|[before, _, after]| after / before)), 3),
        }
    }
}

fn show(rows: &[Row]) -> Result<(), Failure> {
    let header = [
        "op",
        "record",
        "in flight",
        "inner /s",
        "public /s",
        "ratio",
        "95 %",
        "control",
    ];
    let cells = rows.iter().map(|row| {
        let record = row.record.map(|len| size::human(len as u64));
        [
            row.op.to_string(),
            record.unwrap_or_else(|| table::NONE.to_owned()),
            row.in_flight.to_string(),
            format!("{:.0}", row.inner_per_s),
            format!("{:.0}", row.public_per_s),
            format!("{:.3}", row.ratio),
            format!("{:.3}-{:.3}", row.ratio_low, row.ratio_high),
            format!("{:.3}", row.control),
        ]
    });
    output::line(&table::render(3, header, &cells.collect::<Vec<_>>()))
}
