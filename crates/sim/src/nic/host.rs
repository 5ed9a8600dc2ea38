//! A machine whose work takes processor, adapter and link time; the module above has the rules.

use super::calendar::{Calendar, Gap};
use super::{Activity, Constant, Events, Machine, PAGE_LEN, Profile, TIME_SLICE_NS, Usage};
use crate::executor::Executor;
use crate::node::Node;
use crate::world::NodeId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// Work does not start on a processor that is free for less, in nanoseconds: a switch of tasks would cost more.
const SLICE_MIN_NS: u64 = 2_000;

/// Times that a byte passes the memory's bus when a processor copies it: read, its target's line read, written back.
const COPY_ACCESSES: u64 = 3;

/// The processors, the memory, the adapter and the port of one node.
pub struct Host {
    executor: Rc<Executor>,
    node: NodeId,
    profile: Profile,
    processors: RefCell<Vec<Calendar>>,
    /// Commands of the adapter.
    commands: RefCell<Calendar>,
    outgoing: RefCell<Calendar>,
    incoming: RefCell<Calendar>,
    /// Taken by both directions, where they share the way to memory.
    bus: RefCell<Calendar>,
    /// The memory, which copies and transfers take turns at.
    memory: RefCell<Calendar>,
    /// Work that waits for a processor, ordered by the time at which it was asked for.
    waiting: RefCell<VecDeque<(u64, Rc<Job>)>>,
    /// The time of the next dispatch that is scheduled; an event with another time is out of date.
    next_dispatch: Cell<Option<u64>>,
    usage: Cell<Usage>,
    /// Domains with ended registrations that are not charged yet.
    debtors: RefCell<Vec<Weak<dyn Debtor>>>,
}

/// A source of late charges, which `Host::settle` asks for.
pub trait Debtor {
    /// Charges the costs that have not been charged yet.
    fn settle(&self);
}

/// The source of bytes that are written to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// Memory of the writer.
    OfMemory,
    /// The page cache.
    OfFile,
}

/// The times of a transfer, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The time at which its last byte leaves the sender's memory.
    pub(crate) left_at: u64,
    /// The time at which its last byte is in the receiver's memory.
    pub(crate) arrives_at: u64,
}

impl Host {
    /// Makes `node` a machine of `profile`'s testbed. Runtimes and providers that are taken from it afterwards are
    /// charged to the host.
    pub fn install(node: &Node, profile: &Profile) -> Rc<Host> {
        let cpus = profile.machine.cpus.as_usize().max(1);
        let host = Rc::new(Host {
            executor: node.executor(),
            node: node.id(),
            profile: *profile,
            processors: RefCell::new((0..cpus).map(|_| Calendar::default()).collect()),
            commands: RefCell::default(),
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            bus: RefCell::default(),
            memory: RefCell::default(),
            waiting: RefCell::default(),
            next_dispatch: Cell::default(),
            usage: Cell::default(),
            debtors: RefCell::default(),
        });
        node.set_host(Rc::clone(&host));
        host
    }

    /// The profile of its testbed.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its totals so far, including charges ahead of the clock.
    pub fn usage(&self) -> Usage {
        self.usage.get()
    }

    /// The time before which no charge will be asked for, in nanoseconds.
    pub(crate) fn clock(&self) -> u64 {
        self.executor.clock()
    }

    /// The clock of the running task or event, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.executor.now()
    }

    /// Adds busy and waiting time to the totals of an activity.
    pub(crate) fn enter(&self, activity: Activity, busy_ns: u64, waited_ns: u64) {
        let mut usage = self.usage.get();
        usage.enter(activity, busy_ns, waited_ns);
        self.usage.set(usage);
    }

    /// Changes the counts of the adapter.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Events)) {
        let mut usage = self.usage.get();
        change(&mut usage.events);
        self.usage.set(usage);
    }

    /// The first time from `from` on at which a processor is free for `ns`.
    fn find_processor(&self, from: u64, ns: u64) -> u64 {
        let processors = self.processors.borrow();
        let starts = processors.iter().map(|it| it.find(from, ns, ns).start);
        starts.min().unwrap_or(from)
    }

    /// Takes the processor that is free first from `from` on, for `least` to `most` nanoseconds.
    fn take_processor(&self, from: u64, least: u64, most: u64) -> Gap {
        self.take_one_of(usize::MAX, from, least, most)
    }

    /// As [`Host::take_processor`], of the first `count` processors.
    fn take_one_of(&self, count: usize, from: u64, least: u64, most: u64) -> Gap {
        let mut processors = self.processors.borrow_mut();
        let some = processors.iter_mut().take(count.max(1));
        let gaps = some.map(|processor| {
            let gap = processor.find(from, least, most);
            (processor, gap)
        });
        let Some((processor, gap)) = gaps.min_by_key(|(_, gap)| gap.start) else {
            unreachable!("every host has a processor");
        };
        processor.take(self.executor.clock(), gap);
        let mut usage = self.usage.get();
        usage.cpu_ns += gap.len;
        self.usage.set(usage);
        gap
    }

    /// Charges the running task or event for `ns` of processor time, and moves its clock on.
    pub fn charge(&self, activity: Activity, ns: u64) {
        if ns == 0 {
            return;
        }
        let from = self.executor.now();
        let gap = match activity {
            Activity::Copy => self.take_for_copy(from, ns),
            _ => self.take_processor(from, ns, ns),
        };
        self.enter(activity, ns, gap.end() - from - ns);
        self.executor.spend_until(gap.end());
    }

    /// Takes a processor for a copy that takes `ns` without other users of the memory. The processor is held until the
    /// memory has done the copy.
    fn take_for_copy(&self, from: u64, ns: u64) -> Gap {
        let starts = self.find_processor(from, ns);
        let Machine {
            copy_bytes_per_s,
            memory_bytes_per_s,
            ..
        } = self.profile.machine;
        let moved = u128::from(ns) * u128::from(COPY_ACCESSES * copy_bytes_per_s.value);
        let in_memory = moved.checked_div(u128::from(memory_bytes_per_s.value));
        let in_memory = u64::try_from(in_memory.unwrap_or(0)).unwrap_or(u64::MAX);
        let through = self.take_memory(starts, in_memory);
        let held = through.end().saturating_sub(starts).max(ns);
        self.take_processor(starts, held, held)
    }

    fn take_memory(&self, from: u64, ns: u64) -> Gap {
        let clock = self.executor.clock();
        self.memory.borrow_mut().take_first(clock, from, ns)
    }

    /// Lets the adapter execute a command, for which the running task or event waits.
    fn command(&self, activity: Activity, ns: u64) {
        if ns == 0 {
            return;
        }
        let adapter = &self.profile.adapter;
        let (clock, asked_at) = (self.executor.clock(), self.executor.now());
        let executed = self.commands.borrow_mut().take_first(clock, asked_at, ns);
        let (goes_on_at, busy) = if adapter.command_spins.value != 0 {
            let spinning = executed.end() - asked_at;
            (self.take_processor(asked_at, spinning, spinning).end(), ns)
        } else {
            self.wake_sleeper(executed.end(), ns)
        };
        self.enter(activity, busy, goes_on_at - asked_at - busy);
        self.executor.spend_until(goes_on_at);
    }

    /// Charges for an interrupt at `at` and the switch to the task that it wakes, which has slept for `ns`. Gives the
    /// time at which the task goes on, and the busy time until then.
    fn wake_sleeper(&self, at: u64, ns: u64) -> (u64, u64) {
        let Machine {
            interrupt_ns,
            context_switch_ns,
            ..
        } = self.profile.machine;
        let (interrupt, switch) = (interrupt_ns.value, context_switch_ns.value);
        self.take_processor(at, interrupt, interrupt);
        let resumed = self.take_processor(at + interrupt, switch, switch);
        (resumed.end(), ns + interrupt + switch)
    }

    /// Charges an interrupt for completions; gives the time at which it wakes the task that waits for them.
    pub(crate) fn interrupt(&self) -> u64 {
        let ns = self.profile.machine.interrupt_ns.value;
        let now = self.executor.now();
        if ns > 0 {
            self.take_processor(now, ns, ns);
            self.enter(Activity::Protocol, ns, 0);
        }
        now + ns
    }

    /// Charges the running task for a system call that writes `len` bytes, from memory or a file, to a stream.
    pub(crate) fn write_stream(&self, len: usize, from: Bytes) {
        let Profile { tcp, .. } = &self.profile;
        let len = len as u64;
        self.charge(Activity::Protocol, tcp.write_call_ns.value);
        if from == Bytes::OfMemory {
            let rate = tcp.copy_stream_bytes_per_s;
            self.charge(Activity::Copy, rate.time_for(len));
        }
        let packets = len.div_ceil(tcp.packet_bytes.value.max(1));
        let building = tcp.stack_bytes_per_s.time_for(len);
        let built_at = self.handle_packets(packets * tcp.send_packet_ns.value + building);
        self.executor.spend_until(built_at);
    }

    /// Charges the running task for a system call that reads `len` bytes from a stream.
    pub(crate) fn read_stream(&self, len: usize, was_asleep: bool) {
        let Profile { tcp, machine, .. } = &self.profile;
        let switch = machine.context_switch_ns.value * u64::from(was_asleep);
        self.charge(Activity::Protocol, tcp.read_call_ns.value + switch);
        let rate = tcp.copy_stream_bytes_per_s;
        self.charge(Activity::Copy, rate.time_for(len as u64));
    }

    /// Charges for packets of a stream that arrive; gives the time at which they are in their socket.
    pub(crate) fn receive_packets(&self, len: usize) -> u64 {
        let Profile { tcp, machine, .. } = &self.profile;
        let len = len as u64;
        let packets = len.div_ceil(tcp.packet_bytes.value.max(1));
        let interrupts = packets.div_ceil(tcp.interrupt_packets.value.max(1));
        let each = packets * tcp.receive_packet_ns.value + interrupts * machine.interrupt_ns.value;
        self.handle_packets(each + tcp.stack_bytes_per_s.time_for(len))
    }

    /// Takes a processor that handles packets; gives the time at which it is done.
    fn handle_packets(&self, ns: u64) -> u64 {
        let now = self.executor.now();
        if ns == 0 {
            return now;
        }
        let queues = self.profile.tcp.queues.as_usize();
        let gap = self.take_one_of(queues, now, ns, ns);
        self.enter(Activity::Protocol, ns, gap.start - now);
        gap.end()
    }

    /// Runs `action` at `at`, unless the machine crashes before.
    pub(crate) fn schedule(&self, at: u64, action: impl FnOnce() + 'static) {
        self.executor.schedule(at, Some(self.node), action);
    }

    /// Has a thread work for `working` nanoseconds and then copy for `copying`, while the caller sleeps.
    pub fn work(self: &Rc<Self>, activity: Activity, working: u64, copying: u64) -> Work {
        let job = Rc::new(Job {
            activity,
            working: Cell::new(working),
            copying: Cell::new(copying),
            finished: Cell::new(working == 0 && copying == 0),
            waker: RefCell::default(),
        });
        if !job.finished.get() {
            self.queue_job(Rc::clone(&job));
        }
        Work { job }
    }

    /// Enters a job by its time. Tasks ask ahead of the clock, and not in the order of their times. A push to the end
    /// would let later jobs run first.
    fn queue_job(self: &Rc<Self>, job: Rc<Job>) {
        let asked_at = self.executor.now();
        let mut waiting = self.waiting.borrow_mut();
        let place = waiting.partition_point(|(earlier, _)| *earlier <= asked_at);
        waiting.insert(place, (asked_at, job));
        drop(waiting);
        self.dispatch_at(asked_at);
    }

    /// Gives the free processors to the work that has waited longest.
    fn dispatch(self: &Rc<Self>) {
        loop {
            let now = self.executor.now();
            let Some(asked_at) = self.waiting.borrow().front().map(|(asked_at, _)| *asked_at)
            else {
                return;
            };
            let starts = self.find_processor(now.max(asked_at), SLICE_MIN_NS);
            if starts > now {
                return self.dispatch_at(starts);
            }
            let Some((asked_at, job)) = self.waiting.borrow_mut().pop_front() else {
                return;
            };
            self.run_slice(asked_at, job);
        }
    }

    /// Schedules another look at `at`, unless an earlier one is due.
    fn dispatch_at(self: &Rc<Self>, at: u64) {
        if self.next_dispatch.get().is_some_and(|next| next <= at) {
            return;
        }
        self.next_dispatch.set(Some(at));
        let host = Rc::clone(self);
        self.schedule(at, move || {
            // Another event may have been scheduled for an earlier time since; it does the dispatch.
            if host.next_dispatch.get() == Some(at) {
                host.next_dispatch.set(None);
                host.dispatch();
            }
        });
    }

    /// Gives a job a processor, until it is done or its time slice ends.
    fn run_slice(self: &Rc<Self>, asked_at: u64, job: Rc<Job>) {
        let mut end = self.executor.now();
        let mut busy = 0;
        if job.working.get() > 0 {
            let most = job.working.get().min(TIME_SLICE_NS);
            let gap = self.take_processor(end, most.min(SLICE_MIN_NS), most);
            job.working.set(job.working.get() - gap.len);
            (end, busy) = (gap.end(), gap.len);
        }
        if job.working.get() == 0 && job.copying.get() > 0 {
            let copying = job.copying.take();
            end = self.take_for_copy(end, copying).end();
            busy += copying;
        }
        self.enter(job.activity, busy, end - asked_at - busy);
        let host = Rc::clone(self);
        self.schedule(end, move || {
            if job.is_done() {
                job.finish();
                host.dispatch();
            } else {
                host.queue_job(job);
            }
        });
    }

    /// Moves `len` bytes to `to`, from now on.
    pub(crate) fn transfer(&self, to: &Host, len: usize) -> Transfer {
        let (now, len) = (self.executor.now(), len as u64);
        let latency = self.profile.link.latency_ns.value;
        let (start, left_at) = self.pass(&self.outgoing, now, len);
        // Bytes arrive while later ones still leave.
        let (lands, in_memory) = to.pass(&to.incoming, start + latency, len);
        let arrives_at = in_memory.max(left_at + latency);
        let waited = (start - now) + (lands - start - latency);
        self.enter(Activity::Wire, left_at - start, waited);
        Transfer {
            left_at,
            arrives_at,
        }
    }

    /// Takes one direction of the port, and the way between port and memory; gives begin and end of the passage of
    /// `len` bytes.
    fn pass(&self, direction: &RefCell<Calendar>, from: u64, len: u64) -> (u64, u64) {
        let clock = self.executor.clock();
        let adapter = &self.profile.adapter;
        let on_link = self.profile.link.bytes_per_s.time_for(len);
        let on_bus = adapter.dma_bytes_per_s.time_for(len);
        // Transfers take the memory before processors, whose copies then take longer.
        let memory_rate = self.profile.machine.memory_bytes_per_s;
        self.take_memory(from, memory_rate.time_for(len));
        if adapter.dma_shared.value == 0 {
            let time = on_link.max(on_bus);
            let gap = direction.borrow_mut().take_first(clock, from, time);
            return (gap.start, gap.end());
        }
        let port = direction.borrow_mut().take_first(clock, from, on_link);
        let bus = self.bus.borrow_mut().take_first(clock, port.start, on_bus);
        (port.start, port.end().max(bus.end()))
    }

    /// Nanoseconds until a sender has the acknowledgement of its last byte.
    pub(crate) fn acknowledgement_ns(&self) -> u64 {
        2 * self.profile.link.latency_ns.value
    }

    /// Nanoseconds from an RDMA Read's request to the first byte of its response.
    pub(crate) fn read_turnaround_ns(&self) -> u64 {
        self.profile.adapter.read_turnaround_ns.value
    }

    /// Registers `len` bytes of a program's memory.
    pub(crate) fn register(&self, len: u64) {
        self.register_pages(len, self.profile.adapter.register_page_ns);
    }

    /// Registers `len` bytes of a file, as pages of the file system's cache.
    pub(crate) fn register_file(&self, len: u64) {
        self.register_pages(len, self.profile.adapter.register_file_page_ns);
    }

    fn register_pages(&self, len: u64, page_ns: Constant) {
        self.count(|events| events.registrations += 1);
        let adapter = &self.profile.adapter;
        let pages = len.div_ceil(PAGE_LEN);
        let cpu = adapter.register_ns.value + pages * page_ns.value;
        self.charge(Activity::Registration, cpu);
        let command = adapter.register_command_ns.value + pages * adapter.register_entry_ns.value;
        self.command(Activity::Registration, command);
    }

    /// Ends `count` registrations.
    pub(crate) fn deregister(&self, count: u64) {
        let adapter = &self.profile.adapter;
        self.charge(
            Activity::Deregistration,
            count * adapter.deregister_ns.value,
        );
        self.command(
            Activity::Deregistration,
            count * adapter.deregister_command_ns.value,
        );
    }

    /// Uses a pre-allocated mapping for `len` bytes.
    pub(crate) fn map_fast(&self, len: u64) {
        self.count(|events| events.registrations += 1);
        let adapter = &self.profile.adapter;
        let pages = len.div_ceil(PAGE_LEN);
        let cpu = adapter.fast_map_ns.value + pages * adapter.fast_map_page_ns.value;
        self.charge(Activity::Registration, cpu);
    }

    /// Revokes any number of such mappings.
    pub(crate) fn unmap_fast(&self) {
        let adapter = &self.profile.adapter;
        self.charge(Activity::Deregistration, adapter.fast_unmap_ns.value);
        self.command(
            Activity::Deregistration,
            adapter.fast_unmap_command_ns.value,
        );
    }

    /// Adds a source of late charges, asked whenever the clock is read. The reference is weak: it ends with its domain.
    pub fn add_debtor(&self, debtor: Weak<dyn Debtor>) {
        let mut debtors = self.debtors.borrow_mut();
        debtors.retain(|debtor| debtor.strong_count() > 0);
        debtors.push(debtor);
    }

    /// Collects late charges, such as those for regions that were dropped.
    pub(crate) fn settle(&self) {
        for debtor in self.debtors.borrow().iter().filter_map(Weak::upgrade) {
            debtor.settle();
        }
    }
}

/// Work under way; see [`Host::work`]. It goes on after this future is dropped.
pub struct Work {
    job: Rc<Job>,
}

/// The rest of a thread's work.
struct Job {
    activity: Activity,
    working: Cell<u64>,
    copying: Cell<u64>,
    finished: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Job {
    fn is_done(&self) -> bool {
        self.working.get() == 0 && self.copying.get() == 0
    }

    fn finish(&self) {
        self.finished.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Work {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.job.finished.get() {
            return Poll::Ready(());
        }
        *self.job.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}
