//! Volumes between adapters, which check nothing but the key: transfers are right, and no peer reaches memory that is
//! with its user.

use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::Buffer;
use gannet_sim::World;
use gannet_sim::fabric::{DeviceProfile, FabricProfile, Reached, SimFabric};
use gannet_testing::noise;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Vfs};
use gannet_volume::client::{
    File, FileError, Optimistic, PinDownCounters, ReadOptions, Shape, VolumeFs,
};
use std::rc::Rc;

/// Bytes of a stripe.
const UNIT: u32 = 64 << 10;

/// Runs a story of one client of a volume on three I/O servers; gives what peers reached.
fn run(device: DeviceProfile, tell: impl AsyncFnOnce(VolumeFs) + 'static) -> Reached {
    let world = World::new(31);
    let profile = FabricProfile {
        device: Some(device),
        ..FabricProfile::default()
    };
    let fabric = SimFabric::new(&world, profile);
    let bed = Bed::new(&world, Carrier::Memory(Rc::clone(&fabric)), 3, UNIT);
    let node = world.add_node("client");
    let told = world.run(async move {
        bed.start();
        tell(bed.mount(&node)).await;
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
