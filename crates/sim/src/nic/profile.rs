//! A testbed as data: the costs of its machines, adapters and network, each constant with its unit and its source.

use std::fmt;

/// A number of a testbed and where it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// The value, in the unit that the field's name ends with.
    pub value: u64,
    /// The source of the value.
    pub source: Source,
}

/// The source of a constant. Papers are named by their seed: `000 section 3.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A paper gives the value.
    Given(&'static str),
    /// It follows from a paper's values of primitive operations, as the text shows.
    Derived(&'static str),
    /// No paper gives it: the value is common for such hardware and systems. No measurement depends on it by much, or
    /// the text names those that do.
    Assumed(&'static str),
    /// Chosen so that the simulation gives this system row of a paper, which then is no evidence. At most
    /// [`FITTED_MAX`] of a testbed.
    Fitted(&'static str),
}

/// Constants of one testbed that may be fitted to system rows.
pub const FITTED_MAX: usize = 2;

/// A constant that a paper gives.
pub const fn given(value: u64, text: &'static str) -> Constant {
    let source = Source::Given(text);
    Constant { value, source }
}

/// A constant that follows from primitive rows.
pub const fn derived(value: u64, text: &'static str) -> Constant {
    let source = Source::Derived(text);
    Constant { value, source }
}

/// A constant that no source gives, with the reason for its value.
pub const fn assumed(value: u64, text: &'static str) -> Constant {
    let source = Source::Assumed(text);
    Constant { value, source }
}

/// A constant fitted to a system row.
pub const fn fitted(value: u64, row: &'static str) -> Constant {
    let source = Source::Fitted(row);
    Constant { value, source }
}

impl Constant {
    /// A rate or time of zero, which costs no time.
    pub const FREE: Constant = assumed(0, "costs nothing");

    /// The value as a size or a count in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.value).unwrap_or(usize::MAX)
    }

    /// The nanoseconds that `len` bytes take at this rate in bytes per second. A rate of 0 costs nothing.
    pub fn time_for(self, len: u64) -> u64 {
        let time = u128::from(len) * 1_000_000_000;
        let time = time.checked_div(u128::from(self.value)).unwrap_or(0);
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

impl Source {
    /// The kind of the source, in one word.
    pub fn label(&self) -> &'static str {
        match self {
            Source::Given(_) => "given",
            Source::Derived(_) => "derived",
            Source::Assumed(_) => "assumed",
            Source::Fitted(_) => "fitted",
        }
    }

    /// The place in the paper, or the reason.
    pub fn text(&self) -> &'static str {
        match self {
            Source::Given(text)
            | Source::Derived(text)
            | Source::Assumed(text)
            | Source::Fitted(text) => text,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Given(text) => write!(f, "given: {text}"),
            Source::Derived(text) => write!(f, "derived: {text}"),
            Source::Assumed(text) => write!(f, "assumed: {text}"),
            Source::Fitted(row) => write!(f, "fitted on {row}"),
        }
    }
}

/// Declares a group of constants and a way to list them.
macro_rules! constants {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$meaning])* pub $field: Constant,)*
        }

        impl $name {
            fn list(&self) -> Vec<(&'static str, Constant)> {
                vec![$((stringify!($field), self.$field),)*]
            }

            fn entry(&mut self, name: &str) -> Option<&mut Constant> {
                match name {
                    $(stringify!($field) => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

constants! {
    /// A computer without its adapter.
    Machine {
        /// Processors.
        cpus,
        /// Processors that a client works with: fewer, where its process and the kernel's work for it share one.
        client_cpus,
        /// Processor time of an interrupt for completions.
        interrupt_ns,
        /// Processor time from the interrupt to the task that waited.
        context_switch_ns,
        /// Copying from memory to memory, by one processor.
        copy_bytes_per_s,
        /// Bytes that all traffic with the memory may move per second: three for each byte that a processor copies
        /// (source, target and what the target's line held before), one for each that an adapter moves.
        memory_bytes_per_s,
        /// Processor time of one operation of an application, above RPC: system call, NFS client, cache checks.
        client_operation_ns,
        /// Processor time of sending one RPC message, above the verbs: XDR, RPC, transport header.
        send_message_ns,
        /// Processor time of taking one RPC message apart.
        receive_message_ns,
        /// Most bytes that its NFS client puts into one READ or WRITE; a longer record takes several at once.
        transfer_bytes,
    }
}

constants! {
    /// An adapter and its driver, and the way from memory to it.
    Adapter {
        /// Processor time of posting one piece of work.
        post_ns,
        /// Processor time of taking one completion.
        completion_ns,
        /// Time that the adapter takes to find the memory of a message that arrives, beyond what an RDMA Write takes.
        match_receive_ns,
        /// RDMA Reads that one connection may have outstanding (IRD and ORD).
        read_depth,
        /// Time from the arrival of an RDMA Read's request to the first byte of its response.
        read_turnaround_ns,
        /// Bytes between memory and adapter per second.
        dma_bytes_per_s,
        /// 1 where both directions share that rate (PCI-X), 0 where each has it (PCI Express).
        dma_shared,
        /// 1 where an operation may take its bytes from pages of the file system's cache, 0 where they are copied.
        file_pages,
        /// 1 where a Send can revoke a key of the peer.
        remote_invalidation,
        /// 1 where an RDMA Write can bring an immediate, which takes a receive of the peer.
        immediates,
        /// 1 where a kernel gives peers the adapter's one key to all memory.
        all_physical,
        /// 1 where mappings are allocated before their use (FMR); with 0 such memory is registered as any other.
        fast_maps,
        /// 1 where a refused optimistic read fails alone, and memory is exported for such reads.
        optimistic_reads,
        /// Processor time of a registration, apart from its pages.
        register_ns,
        /// Processor time of registering one page of 4096 bytes: pinning and translating.
        register_page_ns,
        /// The same for a page of the file system's cache, which the kernel registers when a file is the source: it has
        /// the page's address, and walks no page table.
        register_file_page_ns,
        /// Time that the adapter takes for the command; one at a time.
        register_command_ns,
        /// Time that the adapter takes to store one page's translation.
        register_entry_ns,
        /// 1 where the caller of a command holds its processor until it is done, 0 where it sleeps until an interrupt.
        command_spins,
        /// Processor time of deregistering.
        deregister_ns,
        /// Time that the adapter takes for that command.
        deregister_command_ns,
        /// Processor time of using a pre-allocated mapping (FMR).
        fast_map_ns,
        /// The same for one page of 4096 bytes.
        fast_map_page_ns,
        /// Processor time of revoking many such mappings at once.
        fast_unmap_ns,
        /// Time that the adapter takes for that command.
        fast_unmap_command_ns,
        /// Pages that the adapter can translate at a time.
        table_pages,
    }
}

constants! {
    /// The network between two machines.
    Link {
        /// Payload that one direction of a port carries per second.
        bytes_per_s,
        /// Time from a posted piece of work to its first byte in the peer's memory: adapters, wire, switch.
        latency_ns,
    }
}

constants! {
    /// TCP between two machines. The work of RPC above it is charged with the calls.
    Tcp {
        /// Processor time of one system call that writes.
        write_call_ns,
        /// Processor time of one system call that reads.
        read_call_ns,
        /// Payload that the system handles as one packet: that of the wire, or more where the adapter cuts it.
        packet_bytes,
        /// Processors that can handle packets: as many as the adapter has queues with interrupts of their own.
        queues,
        /// Processor time of a packet that leaves, and of its acknowledgement.
        send_packet_ns,
        /// Processor time of a packet that arrives, and of acknowledging it.
        receive_packet_ns,
        /// Bytes of packets that such a processor builds or takes apart per second, checksums included; 0: the
        /// adapter does it.
        stack_bytes_per_s,
        /// Packets that arrive with one interrupt.
        interrupt_packets,
        /// Copying between sockets and memory, by one processor. Pages of files are not copied.
        copy_stream_bytes_per_s,
    }
}

constants! {
    /// The server's file system.
    FileSystem {
        /// Processor time of one operation, apart from its bytes: NFS server, vnode layer, the file system itself.
        operation_ns,
        /// Copying out of the file system's memory, by one processor; 0: nothing is copied. The memory is as busy as
        /// with any copy of that time.
        read_bytes_per_s,
        /// Copying into it, likewise.
        write_bytes_per_s,
        /// Threads of the server that are in the file system at a time; 0: as many as there are requests.
        threads,
        /// Memory that holds files; 0: all there is (a file system in memory).
        cache_bytes,
        /// Bytes that enter and leave that memory together.
        block_bytes,
        /// Bytes that are read together from the disk when the first of them is asked for.
        read_ahead_bytes,
        /// Time of a seek from one place of the disk to another.
        seek_ns,
        /// Bytes that the disk reads or writes per second.
        disk_bytes_per_s,
    }
}

/// A testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// The machines of the testbed, and the paper that describes it.
    pub about: &'static str,
    /// Its machines.
    pub machine: Machine,
    /// Their adapters.
    pub adapter: Adapter,
    /// The network between the machines.
    pub link: Link,
    /// TCP over it.
    pub tcp: Tcp,
    /// The server's file system.
    pub file_system: FileSystem,
}

impl Profile {
    /// All constants, by their names.
    pub fn constants(&self) -> Vec<(&'static str, Constant)> {
        let Profile {
            machine,
            adapter,
            link,
            tcp,
            file_system,
            ..
        } = self;
        let groups = [
            machine.list(),
            adapter.list(),
            link.list(),
            tcp.list(),
            file_system.list(),
        ];
        groups.into_iter().flatten().collect()
    }

    /// The testbed with another value of one constant, which keeps its source; `None` when none is called so.
    pub fn with(mut self, name: &str, value: u64) -> Option<Profile> {
        let Profile {
            machine,
            adapter,
            link,
            tcp,
            file_system,
            ..
        } = &mut self;
        let entry = machine
            .entry(name)
            .or_else(|| adapter.entry(name))
            .or_else(|| link.entry(name))
            .or_else(|| tcp.entry(name))
            .or_else(|| file_system.entry(name))?;
        entry.value = value;
        Some(self)
    }

    /// The testbed as a benchmark of its verbs sees it: completions are polled for, and no RPC lies above.
    #[must_use]
    pub fn bare_verbs(mut self) -> Profile {
        let nothing = assumed(0, "left out by benchmarks of the verbs");
        self.machine.interrupt_ns = nothing;
        self.machine.context_switch_ns = nothing;
        self.machine.send_message_ns = nothing;
        self.machine.receive_message_ns = nothing;
        self
    }

    /// The testbed as one of its clients sees it.
    #[must_use]
    pub fn of_client(mut self) -> Profile {
        self.machine.cpus = self.machine.client_cpus;
        self
    }

    /// The testbed as a server sees it that polls for its completions all the time: nothing interrupts or wakes it. One
    /// that is a single thread does all it does on the processor that it holds.
    #[must_use]
    pub fn polling(mut self) -> Profile {
        let nothing = assumed(0, "a server that polls is neither interrupted nor woken");
        self.machine.interrupt_ns = nothing;
        self.machine.context_switch_ns = nothing;
        if self.file_system.threads.value == 1 {
            self.machine.cpus.value = 1;
        }
        self
    }
}
