//! Volumes between adapters, which check nothing but the key: transfers are right, and no peer reaches memory that is
//! with its user.

use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::{Buffer, Handle, ProgramSlot, both, sleep, timeout};
use gannet_sim::World;
use gannet_sim::fabric::{DeviceProfile, FabricProfile, Reached, SimFabric};
use gannet_testing::noise;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Vfs};
use gannet_volume::client::{
    File, FileError, Optimistic, PinDownCounters, ReadOptions, Shape, VolumeFs,
};
use std::rc::Rc;
use std::time::Duration;

/// Bytes of a stripe.
const UNIT: u32 = 64 << 10;

/// Runs a story of one client of a volume on three I/O servers; gives what peers reached.
fn run(device: DeviceProfile, tell: impl AsyncFnOnce(VolumeFs) + 'static) -> Reached {
    run_timed(device, async |fs, _| tell(fs).await)
}

/// As [`run`], for a story that waits.
fn run_timed(device: DeviceProfile, tell: impl AsyncFnOnce(VolumeFs, Handle) + 'static) -> Reached {
    run_on(3, device, tell)
}

/// As [`run_timed`], on this many I/O servers.
fn run_on(
    servers: usize,
    device: DeviceProfile,
    tell: impl AsyncFnOnce(VolumeFs, Handle) + 'static,
) -> Reached {
    let world = World::new(31);
    let profile = FabricProfile {
        device: Some(device),
        ..FabricProfile::default()
    };
    let fabric = SimFabric::new(&world, profile);
    let bed = Bed::new(&world, Carrier::Memory(Rc::clone(&fabric)), servers, UNIT);
    let node = world.add_node("client");
    let told = world.run(async move {
        bed.start();
        tell(bed.mount(&node), node.runtime()).await;
    });
    told.unwrap();
    fabric.reached()
}

fn slow() -> DeviceProfile {
    DeviceProfile {
        revocation_us_max: 200,
        ..DeviceProfile::PLAIN
    }
}

/// A file of the volume, and its client.
struct Program {
    fs: Rc<VolumeFs>,
    file: File,
}

impl Program {
    async fn new(fs: VolumeFs) -> Program {
        let (fs, caller) = (Rc::new(fs), Credentials::new(0, 0, &[]));
        let mode = CreateMode::Unchecked(SetAttributes::default());
        let made = fs.create(&caller, &fs.root(), b"file", &mode).await;
        let file = File::new(Rc::clone(&fs), caller, made.result.unwrap().handle);
        Program { fs, file }
    }

    async fn write(&self, memory: &mut Buffer, len: usize) -> Result<(), FileError> {
        (self.file)
            .write_at(0, memory, len, Stability::FileSync)
            .await
    }

    async fn read(&self, memory: &mut Buffer, len: usize) -> Result<(), FileError> {
        let read = self.file.read_at(0, memory, len).await;
        read.map(|count| assert_eq!(count, len))
    }
}

/// Lengths that go inline, that eager buffers take, and that servers move.
const LENS: [usize; 4] = [100, 20_000, 300_001, 3_000_000];

#[test]
fn bytes_of_a_volume_pass_between_adapters() {
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        for (round, len) in (0..3u8).flat_map(|round| LENS.map(|len| (round, len))) {
            let mut memory = program.fs.memory(len);
            memory[..len].copy_from_slice(&noise(len, round));
            program.write(&mut memory, len).await.unwrap();
            memory[..len].fill(0);
            program.read(&mut memory, len).await.unwrap();
            assert!(memory[..len] == noise(len, round), "{len} bytes");
            let mut memory = Buffer::zeroed(len);
            program.read(&mut memory, len).await.unwrap();
            assert!(*memory == noise(len, round), "{len} bytes of a buffer");
        }
    });
    assert_eq!(reached, Reached::default());
}

#[test]
fn an_adapter_keeps_registered_what_servers_read_and_nothing_that_they_write() {
    const LEN: usize = 300_000;
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        let counted = |before: PinDownCounters| {
            let now = program.fs.pin_down_counters();
            let registrations = now.registrations - before.registrations;
            (registrations, now.hits - before.hits)
        };
        let mut memory = program.fs.memory(LEN);
        let before = program.fs.pin_down_counters();
        for _ in 0..10 {
            program.write(&mut memory, LEN).await.unwrap();
        }
        assert_eq!(counted(before), (1, 9), "written");
        let before = program.fs.pin_down_counters();
        for _ in 0..10 {
            program.read(&mut memory, LEN).await.unwrap();
        }
        assert_eq!(counted(before), (10, 0), "read");
    });
    assert_eq!(reached, Reached::default());
}

/// A window serves one server. So memory that one server alone writes stays registered where an adapter has windows.
#[test]
fn memory_that_one_server_writes_stays_registered_under_windows() {
    const LEN: usize = 300_000;
    for (windows, expected) in [(true, (1, 10)), (false, (11, 0))] {
        let device = DeviceProfile { windows, ..slow() };
        let reached = run_on(1, device, async move |fs, _| {
            let program = Program::new(fs).await;
            let mut memory = program.fs.memory(LEN);
            let written = noise(LEN, 3);
            let mut source = Buffer::from_vec(written.clone());
            program.write(&mut source, LEN).await.unwrap();
            let before = program.fs.pin_down_counters();
            for _ in 0..11 {
                memory[..LEN].fill(0);
                program.read(&mut memory, LEN).await.unwrap();
                assert!(memory[..LEN] == written);
            }
            let now = program.fs.pin_down_counters();
            let registrations = now.registrations - before.registrations;
            let seen = (registrations, now.hits - before.hits);
            assert_eq!(seen, expected, "windows: {windows}");
        });
        assert_eq!(reached, Reached::default());
    }
}

/// Memory that a program brings and has between transfers stays registered as that of the client does.
#[test]
fn memory_of_a_program_stays_registered_between_transfers() {
    const LEN: usize = 300_000;
    let reached = run_on(1, slow(), async move |fs, _| {
        let program = Program::new(fs).await;
        let slot = ProgramSlot::new(Buffer::from_vec(noise(LEN, 1)));
        program.fs.keep_registered(slot.id());
        let before = program.fs.pin_down_counters();
        let counted = || {
            let now = program.fs.pin_down_counters();
            (
                now.registrations - before.registrations,
                now.hits - before.hits,
            )
        };
        for round in 1..10 {
            let mut memory = slot.take().unwrap();
            assert!(*memory == noise(LEN, round));
            program.write(&mut memory, LEN).await.unwrap();
            memory.fill(0);
            program.read(&mut memory, LEN).await.unwrap();
            assert!(*memory == noise(LEN, round));
            memory.copy_from_slice(&noise(LEN, round + 1));
        }
        assert_eq!(counted(), (1, 17));
        let memory = slot.take().unwrap();
        let memory = program.fs.end_registration(memory).await.unwrap();
        let mut memory = slot.take_out(memory).unwrap();
        program.read(&mut memory, LEN).await.unwrap();
        assert_eq!(counted(), (2, 17), "it is memory like any other");

        // The registration of memory that was dropped in a transfer ends with it.
        let slot = ProgramSlot::new(memory);
        program.fs.keep_registered(slot.id());
        let mut memory = slot.take().unwrap();
        program.write(&mut memory, LEN).await.unwrap();
        assert_eq!(counted().0, 3);
        let forget = async { program.fs.forget_registration(slot.id()) };
        let read = both(program.read(&mut memory, LEN), forget).await;
        read.0.unwrap();
        program.write(&mut memory, LEN).await.unwrap();
        assert_eq!(counted().0, 4, "it was registered again");
    });
    assert_eq!(reached, Reached::default());
}

/// Eager buffers serve one connection, so an adapter whose keys do has them.
#[test]
fn short_transfers_between_adapters_register_nothing() {
    const LEN: usize = 20_000;
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        let mut memory = Buffer::from_vec(noise(LEN, 0));
        // The first transfer makes the buffers.
        program.write(&mut memory, LEN).await.unwrap();
        program.read(&mut memory, LEN).await.unwrap();
        let before = program.fs.pin_down_counters();
        for round in 1..10 {
            memory.copy_from_slice(&noise(LEN, round));
            program.write(&mut memory, LEN).await.unwrap();
            memory.fill(0);
            program.read(&mut memory, LEN).await.unwrap();
            assert!(*memory == noise(LEN, round), "round {round}");
        }
        assert_eq!(program.fs.pin_down_counters(), before);
    });
    assert_eq!(reached, Reached::default());
}

/// Memory that stays registered goes to each server of the volume in turn, on connections of their own.
#[test]
fn what_an_adapter_keeps_registered_is_read_by_every_server() {
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        let len = UNIT as usize;
        let mut memory = program.fs.memory(len);
        memory[..len].copy_from_slice(&noise(len, 3));
        for stripe in 0..6 {
            let offset = u64::from(UNIT) * stripe;
            let stable = Stability::FileSync;
            let written = program.file.write_at(offset, &mut memory, len, stable);
            written.await.unwrap();
        }
    });
    assert_eq!(reached, Reached::default());
}

/// An adapter that exports memory serves reads without a request, into sinks that peers never reach.
#[test]
fn clients_read_optimistically_by_an_adapter_that_has_exceptions() {
    let device = DeviceProfile {
        optimistic_reads: true,
        ..slow()
    };
    let reached = run(device, async |fs| {
        let options = ReadOptions {
            optimistic: Optimistic::On,
            ..ReadOptions::default()
        };
        let program = Program::new(fs.with_reads(options)).await;
        let len = 20_000;
        let mut memory = Buffer::from_vec(noise(len, 5));
        program.write(&mut memory, len).await.unwrap();
        for _ in 0..10 {
            let mut memory = Buffer::zeroed(len);
            program.read(&mut memory, len).await.unwrap();
            assert!(*memory == noise(len, 5));
        }
        let reads = program.fs.optimistic_counters();
        assert!(reads.reads > 0 && reads.refused == 0, "{reads:?}");
    });
    assert_eq!(reached, Reached::default());
}

/// A deregistration that fails costs the memory of its transfer, and no later one.
#[test]
fn memory_lost_to_an_adapter_is_never_used_again() {
    let device = DeviceProfile {
        deregistration_failures_per_mille: 200,
        ..slow()
    };
    let reached = run(device, async |fs| {
        let program = Program::new(fs).await;
        let len = 300_000;
        let (mut lost, mut kept) = (0, 0);
        for round in 0..30 {
            let mut memory = program.fs.memory(len);
            memory[..len].copy_from_slice(&noise(len, round));
            // What servers read stays registered, so it cannot be lost.
            program.write(&mut memory, len).await.unwrap();
            match program.read(&mut memory, len).await {
                Ok(()) => {
                    assert!(memory[..len] == noise(len, round), "round {round}");
                    kept += 1;
                }
                Err(_) => lost += 1,
            }
        }
        assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
    });
    assert_eq!(reached, Reached::default());
}

/// A device pins an allocation whole. Short parts of long ones are moved through memory of the part's length.
#[test]
fn a_part_of_a_long_allocation_is_moved_without_the_registration_of_the_whole() {
    const WHOLE: usize = 8 << 20;
    const PART: usize = 300_000;
    const ROUNDS: u64 = 5;
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        let counted = |before: PinDownCounters| {
            let now = program.fs.pin_down_counters();
            let registrations = now.registrations - before.registrations;
            (
                registrations,
                now.registered_bytes - before.registered_bytes,
            )
        };
        let mut memory = Buffer::from_vec(vec![0; WHOLE]);
        let file = Shape::contiguous(0, PART as u32).unwrap();
        let at = |round: u64| Shape::contiguous(1000 + round * 400_000, PART as u32).unwrap();
        let bytes = |round: u64| noise(PART, round as u8);
        let place = |round: u64| 1000 + round as usize * 400_000..;
        let (before, copied) = (program.fs.pin_down_counters(), program.fs.copied_bytes());
        for round in 0..ROUNDS {
            memory[place(round)][..PART].copy_from_slice(&bytes(round));
            let stable = Stability::FileSync;
            let part = at(round);
            let write = (program.file).write_shape(&file, &part, &mut memory, stable);
            write.await.unwrap();
            memory[place(round)][..PART].fill(0);
            let read = program.file.read_shape(&file, &part, &mut memory);
            read.await.unwrap();
            assert!(
                memory[place(round)][..PART] == bytes(round),
                "round {round}"
            );
        }
        assert!(memory[..1000].iter().all(|byte| *byte == 0));
        let moved = program.fs.copied_bytes() - copied;
        assert_eq!(moved, 2 * ROUNDS * PART as u64);
        // What servers read stays registered; what they write is registered each time.
        let (registrations, pinned) = counted(before);
        assert_eq!(registrations, 1 + ROUNDS);
        assert!(pinned <= registrations * 2 * PART as u64, "{pinned} bytes");

        // Most of an allocation is registered itself, and nothing copied.
        let mut memory = Buffer::zeroed(PART + 1);
        let (before, copied) = (program.fs.pin_down_counters(), program.fs.copied_bytes());
        program.read(&mut memory, PART).await.unwrap();
        assert_eq!(counted(before), (1, PART as u64 + 1));
        assert_eq!(program.fs.copied_bytes(), copied);
        assert!(memory[..PART] == bytes(ROUNDS - 1));
    });
    assert_eq!(reached, Reached::default());
}

/// Memory of the program is registered once for many reads and writes, and nothing is copied.
#[test]
fn memory_of_the_program_is_registered_once_until_it_is_taken_back() {
    const LEN: usize = 1 << 20;
    const PART: usize = 100_000;
    let reached = run(slow(), async |fs| {
        let program = Program::new(fs).await;
        let own = noise(LEN, 1);
        let address = own.as_ptr();
        let (before, copied) = (program.fs.pin_down_counters(), program.fs.copied_bytes());
        let memory = program.fs.register(Buffer::from_vec(own)).await.unwrap();
        let shape = |start: usize| Shape::contiguous(start as u64, PART as u32).unwrap();
        let stable = Stability::FileSync;
        for part in 0..5 {
            let (file, place) = (shape(part * PART), shape((4 - part) * PART));
            let write = (program.file).write_shape_registered(&file, &place, &memory, stable);
            write.await.unwrap();
        }
        // Inline and eager lengths come to registered memory too, and several reads at a time.
        let reads = [(0, 0, 100), (PART, 600_000, PART), (10, 800_000, 20_000)];
        let [first, second, third] = reads.map(|(offset, start, len)| {
            let (file, memory) = (&program.file, &memory);
            async move {
                let read = file.read_registered(offset as u64, len, memory, start);
                assert_eq!(read.await, Ok(len));
            }
        });
        both(both(first, second), third).await;
        let end = (5 * PART - 10) as u64;
        let read = program.file.read_registered(end, PART, &memory, 900_000);
        assert_eq!(read.await, Ok(10), "the file ends");
        let beyond = program.file.read_registered(0, 2, &memory, LEN - 1);
        assert_eq!(beyond.await, Err(FileError::Shape));

        let memory = memory.take_back().await.unwrap().into_vec();
        assert_eq!(memory.as_ptr(), address, "it is the program's memory");
        let mut wanted = noise(LEN, 1);
        let written: Vec<u8> = (0..5)
            .flat_map(|part| wanted[(4 - part) * PART..][..PART].to_vec())
            .collect();
        wanted[..100].copy_from_slice(&written[..100]);
        wanted[600_000..][..PART].copy_from_slice(&written[PART..][..PART]);
        wanted[800_000..][..20_000].copy_from_slice(&written[10..][..20_000]);
        wanted[900_000..][..10].copy_from_slice(&written[5 * PART - 10..]);
        let rest = 900_000 + PART;
        assert!(memory[..900_010] == wanted[..900_010]);
        assert!(memory[rest..] == wanted[rest..]);
        let counters = program.fs.pin_down_counters();
        assert_eq!(counters.registrations - before.registrations, 1);
        assert_eq!(program.fs.copied_bytes(), copied);
    });
    assert_eq!(reached, Reached::default());
}

/// The bytes of a read that was given up never land behind those of a later read, nor in memory that was taken back.
#[test]
fn a_read_that_is_given_up_changes_no_memory_later() {
    const LEN: usize = 1 << 20;
    let reached = run_timed(slow(), async |fs, runtime| {
        let program = Program::new(fs).await;
        let mut memory = Buffer::from_vec(noise(2 * LEN, 9));
        program.write(&mut memory, 2 * LEN).await.unwrap();
        let (mut given_up, mut waited) = (0, 0);
        for patience in (0..1000).step_by(20).map(Duration::from_micros) {
            let memory = program.fs.register(Buffer::zeroed(LEN)).await.unwrap();
            let reading = program.file.read_registered(0, LEN, &memory, 0);
            if timeout(&runtime, patience, reading).await.is_ok() {
                continue;
            }
            given_up += 1;
            if given_up % 2 == 0 {
                // Servers do short requests first, so this one would overtake the one that was given up.
                let read = program.file.read_registered(LEN as u64, 100, &memory, 0);
                assert_eq!(read.await, Ok(100));
                waited += 1;
                sleep(&runtime, Duration::from_secs(1)).await;
                let memory = memory.take_back().await.unwrap();
                assert!(memory[..100] == noise(2 * LEN, 9)[LEN..][..100]);
            } else {
                let memory = memory.take_back().await.unwrap();
                let kept = memory.to_vec();
                sleep(&runtime, Duration::from_secs(1)).await;
                assert!(*memory == kept);
            }
        }
        assert!(given_up > 10 && waited > 5, "{given_up}, {waited}");
    });
    assert_eq!(reached, Reached::default());
}
