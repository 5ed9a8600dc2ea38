//! Requests of a hundred bytes that describe a million pieces, beside the short requests of another client.

use crate::support::{Place, Server, succeed};
use crate::volume_io::{connect, create};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, Handle, LocalFuture, all};
use gannet_vfs::{Credentials, Stability, Vfs};
use gannet_volume::client::{File, Level, Piece, Shape, VolumeFs};
use gannet_wire::volume::{NESTED_PIECES_MAX, ObjectPosition};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests of each kind that a client has under way: nearly all its credits.
const REQUESTS: usize = 30;
/// Rounds of the other client's short requests.
const ROUNDS: usize = 20;
/// The factor by which those may take longer than at a server that nobody attacks, which takes milliseconds. Before
/// there were turns for pieces, the first one took more than a minute.
const SLOWDOWN_MAX: u32 = 200;

/// Every other byte of 2 MiB.
fn million() -> Shape {
    let count = NESTED_PIECES_MAX as u32;
    let first = Piece { offset: 0, len: 1 };
    Shape::nested(first, vec![Level { count, stride: 2 }]).unwrap()
}

/// The work that a client repeats until the test is over.
type Work = LocalFuture<()>;

async fn write(file: Rc<File>, mut buffer: Buffer) {
    let (file_shape, memory) = (million(), Shape::contiguous(0, 1 << 20).unwrap());
    loop {
        let written = file.write_shape(&file_shape, &memory, &mut buffer, Stability::Unstable);
        // Refused, or not in time: once more.
        let _ = written.await;
    }
}

async fn read(file: Rc<File>, mut buffer: Buffer) {
    let (file_shape, memory) = (million(), Shape::contiguous(0, 1 << 20).unwrap());
    loop {
        let _ = file.read_shape(&file_shape, &memory, &mut buffer).await;
    }
}

async fn list(fs: Rc<VolumeFs>) {
    let start = ObjectPosition {
        folder: 0,
        cookie: 0,
        verifier: 0,
    };
    loop {
        let _ = fs.objects(0, start).await;
    }
}

/// All that hostile clients do, each kind on connections of its own.
async fn attack(runtime: &Handle, manager: SocketAddr, key: &Path, begun: &AtomicBool) {
    let open = async || {
        let fs = Rc::new(connect(runtime, manager, key).unwrap());
        let file = Rc::new(create(&fs, "hostile").await.unwrap());
        (fs, file)
    };
    let ((writer, to), (reader, from), (lister, _)) = (open().await, open().await, open().await);
    let mut all_work: Vec<Work> = Vec::new();
    for _ in 0..REQUESTS {
        let (to, from) = (Rc::clone(&to), Rc::clone(&from));
        all_work.push(Box::pin(write(to, writer.memory(1 << 20))));
        all_work.push(Box::pin(read(from, reader.memory(1 << 20))));
        all_work.push(Box::pin(list(Rc::clone(&lister))));
    }
    let mut work = Box::pin(all(all_work));
    let mut polls = 0;
    poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        // By then requests have left.
        polls += 1;
        if polls > REQUESTS {
            begun.store(true, Ordering::Relaxed);
        }
        polled
    })
    .await;
}

/// The times that short requests take: a WRITE, what the file is like, and a READ.
async fn short_requests(runtime: &Handle, manager: SocketAddr, key: PathBuf) -> Vec<Duration> {
    let fs = Rc::new(connect(runtime, manager, &key).unwrap());
    let file = create(&fs, "other").await.unwrap();
    let mut memory = fs.memory(4096);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        memory.fill(round as u8);
        let written = file.write_at(0, &mut memory, 4096, Stability::Unstable);
        written.await.unwrap();
        times.push(started.elapsed());
        let started = Instant::now();
        let caller = Credentials::new(0, 0, &[]);
        fs.lookup(&caller, &fs.root(), b"other").await.0.unwrap();
        times.push(started.elapsed());
        let started = Instant::now();
        memory.fill(0);
        assert_eq!(file.read_at(0, &mut memory, 4096).await.unwrap(), 4096);
        assert!(memory.iter().take(4096).all(|byte| *byte == round as u8));
        times.push(started.elapsed());
    }
    times
}

/// Tells another thread, also by a panic.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn set(runtime: &Handle, flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        gannet_runtime::sleep(runtime, Duration::from_millis(1)).await;
    }
}

#[test]
fn a_million_pieces_in_each_request_hold_up_no_other_client() {
    let (attacked, other) = (Served::start(), Served::start());
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (manager, key) = (attacked.manager(), attacked.key());
    let [times, times_beside] = std::thread::scope(|scope| {
        let (key, begun, over) = (key.as_path(), &begun, &over);
        scope.spawn(move || {
            let _begun = SetWhenDropped(begun);
            block_on(async |runtime| {
                tokio::select! {
                    () = attack(&runtime, manager, key, begun) => {}
                    () = set(&runtime, over) => {}
                }
            })
            .unwrap();
        });
        let _over = SetWhenDropped(over);
        let times = block_on(async |runtime| {
            set(&runtime, begun).await;
            // While the attack goes on, so that a busy machine slows both.
            let beside = short_requests(&runtime, other.manager(), other.key()).await;
            let times = short_requests(&runtime, manager, key.to_path_buf()).await;
            [times, beside]
        });
        times.unwrap()
    });
    let [sum, sum_beside] = [&times, &times_beside].map(|it| it.iter().sum::<Duration>());
    assert!(
        sum < SLOWDOWN_MAX * sum_beside,
        "{times:?}, beside {times_beside:?}"
    );
}

/// A volume, served by one core.
struct Served {
    place: Place,
    server: Server,
}

impl Served {
    fn start() -> Served {
        let place = Place::new();
        let volume = place.text("volume");
        succeed(&["volume", "create", &volume, "--io-servers", "1"]);
        let words = ["--volume", &volume, "--native", "127.0.0.1:0"];
        let nfs = ["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"];
        let server = Server::with(&[&words[..], &nfs, &["--cores", "1"]].concat());
        Served { place, server }
    }

    fn manager(&self) -> SocketAddr {
        self.server.native.parse().unwrap()
    }

    fn key(&self) -> PathBuf {
        self.place.path("volume/client-key")
    }
}
