//! The suite every provider of the fabric seam must pass.
//!
//! It holds requirements on every provider, and the beds they run on. It names no provider, has no protocol above the
//! seam, and is used by tests alone.
//!
//! A provider's test implements [`Harness`] and calls [`run_all`], which gives a [`Report`]: the failed cases, each
//! with its line, and those left out because they need a [`Power`] that the provider lacks. Cases use a provider's
//! traits alone, so protocols may rely on each requirement. After each case every buffer must be back in its arena, and
//! both domains must have no region left.

mod bed;
mod connecting;
mod disk_file;
mod ending;
mod immediates;
mod messages;
mod reads;
mod refusals;
mod sharing;
mod strategies;
mod survivable_exceptions;
mod writes;

use bed::Bed;
use gannet_fabric::{Capabilities, Provider, Region};
use gannet_runtime::{FileRef, Handle};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

pub use bed::MemoryFile;
pub use disk_file::DiskFile;

/// How long one case may take on the harness's clock before it counts as hung.
const CASE_TIME_MAX: Duration = Duration::from_secs(60);

/// The providers under test, and their runtime.
pub trait Harness {
    /// The runtime that the cases run on.
    fn runtime(&self) -> Handle;

    /// The provider that connects.
    fn near(&self) -> Rc<dyn Provider>;

    /// The provider that listens. May be the near one.
    fn far(&self) -> Rc<dyn Provider>;

    /// An address, with port 0, at which the far provider can listen.
    fn address(&self) -> SocketAddr;

    /// The bytes of a region, as its owner sees them. A provider without [`gannet_fabric::SoftwareRegion`]s must
    /// implement it.
    fn look(&self, region: &Region) -> Option<Vec<u8>> {
        let len = usize::try_from(region.len()).ok()?;
        Some(region.software()?.bytes(0, len)?.to_vec())
    }

    /// A file with this content, of the kind the provider will meet; by default one in memory without a descriptor.
    fn file(&self, content: Vec<u8>) -> FileRef {
        MemoryFile::resident(content)
    }
}

/// One requirement on a provider.
#[derive(Clone, Copy)]
pub struct Case {
    /// The requirement, as `group::story`.
    pub name: &'static str,
    /// The capability that it needs of both providers.
    pub needs: Option<Power>,
    body: for<'a> fn(&'a Bed<'a>) -> CaseFuture<'a>,
}

/// A capability that a provider may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// [`Capabilities::file_sources`]
    FileSources,
    /// [`Capabilities::file_regions`]
    FileRegions,
    /// [`Capabilities::shared_receives`]
    SharedReceives,
    /// [`Capabilities::sends_invalidate`] and [`Capabilities::keys_invalidated`]
    RemoteInvalidation,
    /// [`Capabilities::bound_keys`]
    BoundKeys,
    /// [`Capabilities::optimistic_reads`]
    OptimisticReads,
    /// [`Capabilities::immediates`]
    Immediates,
}

impl Power {
    fn is_in(self, capabilities: Capabilities) -> bool {
        match self {
            Power::FileSources => capabilities.file_sources,
            Power::FileRegions => capabilities.file_regions,
            Power::SharedReceives => capabilities.shared_receives,
            Power::RemoteInvalidation => {
                capabilities.sends_invalidate && capabilities.keys_invalidated
            }
            Power::BoundKeys => capabilities.bound_keys,
            Power::OptimisticReads => capabilities.optimistic_reads,
            Power::Immediates => capabilities.immediates,
        }
    }
}

/// The result of a case that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The requirement holds.
    Held,
    /// It needs this capability, which a provider lacks.
    LeftOut(Power),
}

/// The results of all cases; those that are not named here hold.
#[derive(Debug, Default)]
pub struct Report {
    /// The failed cases.
    pub failures: Vec<Failure>,
    /// The cases that need a capability which a provider lacks.
    pub left_out: Vec<(&'static str, Power)>,
}

type CaseFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;
type Outcome<T = ()> = Result<T, Broken>;

/// A case that did not hold.
#[derive(Debug)]
pub struct Failure {
    /// The case.
    pub case: &'static str,
    broken: Broken,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({})",
            self.case, self.broken.what, self.broken.place
        )
    }
}

/// A violated requirement, and the line of the suite that found it.
#[derive(Debug)]
struct Broken {
    what: String,
    place: &'static Location<'static>,
}

impl Broken {
    #[track_caller]
    fn new(what: impl Into<String>) -> Broken {
        Broken {
            what: what.into(),
            place: Location::caller(),
        }
    }
}

impl<E: std::error::Error> From<E> for Broken {
    #[track_caller]
    fn from(error: E) -> Broken {
        Broken::new(format!("unexpected error: {error} ({error:?})"))
    }
}

/// Runs every case, one after the other.
pub async fn run_all(harness: &dyn Harness) -> Report {
    let mut report = Report::default();
    for case in cases() {
        match run_case(harness, &case).await {
            Ok(Verdict::Held) => {}
            Ok(Verdict::LeftOut(power)) => report.left_out.push((case.name, power)),
            Err(failure) => report.failures.push(failure),
        }
    }
    report
}

/// Runs one case and checks that it left no memory or region in use; or leaves it out.
///
/// # Errors
/// The case failed; the error has the first violated requirement.
pub async fn run_case(harness: &dyn Harness, case: &Case) -> Result<Verdict, Failure> {
    tracing::debug!(case = case.name, "conformance case");
    let ends = [harness.near().capabilities(), harness.far().capabilities()];
    let lacks = |power: &Power| ends.iter().any(|end| !power.is_in(*end));
    if let Some(power) = case.needs.filter(lacks) {
        return Ok(Verdict::LeftOut(power));
    }
    let runtime = harness.runtime();
    let bed = Bed::new(harness);
    let outcome = match gannet_runtime::timeout(&runtime, CASE_TIME_MAX, (case.body)(&bed)).await {
        Ok(Ok(())) => bed.balanced().await,
        Ok(Err(broken)) => Err(broken),
        Err(_) => Err(Broken::new("did not end in time")),
    };
    outcome.map(|()| Verdict::Held).map_err(|broken| Failure {
        case: case.name,
        broken,
    })
}

macro_rules! cases {
    ($($group:ident { $($story:ident $(: $power:ident)?),* $(,)? })*) => {
        /// All cases, in the order in which a new provider comes to pass them.
        pub fn cases() -> Vec<Case> {
            vec![$($(Case {
                name: concat!(stringify!($group), "::", stringify!($story)),
                needs: None$(.or(Some(Power::$power)))?,
                body: |bed| Box::pin($group::$story(bed)),
            }),*),*]
        }
    };
}

cases! {
    connecting {
        private_data_goes_both_ways,
        too_much_private_data_is_refused_at_home,
        a_rejection_brings_its_private_data,
        a_port_without_listener_is_an_error,
        read_depths_are_agreed,
        a_traffic_class_is_taken_or_refused_at_home,
        many_connections_at_once,
    }
    messages {
        every_size_arrives,
        many_arrive_in_order,
        receives_are_used_in_order,
        sources_of_every_kind,
        a_file_is_a_source: FileSources,
        a_solicited_message_is_reported_as_such,
        only_asked_completions_come,
        the_send_queue_fills_and_recovers,
        the_receive_queue_is_bounded,
        invalid_work_is_refused_at_home,
        both_directions_at_once,
    }
    sharing {
        two_endpoints_use_one_queue: SharedReceives,
        messages_complete_in_their_order: SharedReceives,
        a_peer_beyond_its_grant_ends_alone: SharedReceives,
        an_empty_queue_ends_the_connection_that_needs_it: SharedReceives,
        memory_of_an_aborted_endpoint_comes_back: SharedReceives,
        shared_and_own_receives_do_not_mix: SharedReceives,
    }
    writes {
        a_send_makes_earlier_writes_visible,
        every_size_is_written_in_place,
        sources_of_every_kind,
        a_file_is_a_source: FileSources,
        a_cold_file_is_written: FileSources,
        past_the_end_of_a_file_come_zeros: FileSources,
        a_failing_file_fails_the_work: FileSources,
        completions_come_in_order,
        an_idle_application_is_written_to,
    }
    reads {
        every_size_is_read,
        several_mebibytes_in_pieces,
        reads_beyond_the_depth_wait_their_turn,
        a_file_region_is_read: FileRegions,
        a_file_region_ends_where_files_do: FileRegions,
        an_idle_application_is_read_from,
        reads_cross_in_both_directions,
        without_depth_no_read,
    }
    refusals {
        reads_outside_the_grant,
        writes_outside_the_grant,
        a_message_with_no_receive,
        a_message_longer_than_its_receive,
        send_with_invalidate_revokes: RemoteInvalidation,
        a_foreign_key_is_not_invalidated: RemoteInvalidation,
        nothing_lands_after_deregister,
        nothing_is_read_after_deregister,
        a_sink_taken_away_fails_the_read,
        a_dropped_revocation_goes_on,
        memory_of_another_provider_is_refused_at_home,
        kinds_of_memory_that_are_lacking_are_refused,
    }
    immediates {
        an_immediate_comes_after_its_bytes: Immediates,
        immediates_and_messages_keep_their_order: Immediates,
        a_refused_write_brings_none: Immediates,
        an_immediate_uses_a_shared_receive: Immediates,
        one_that_nobody_takes_ends_the_connection: Immediates,
        where_there_are_none_the_post_says_so,
    }
    strategies {
        bytes_are_written_under_each,
        bytes_are_read_under_each,
        slots_serve_our_own_reads_under_each,
        nothing_lands_after_release,
        nothing_is_read_after_release,
        a_key_serves_one_connection_at_a_time: BoundKeys,
        neighbours_are_out_of_reach_under_each,
    }
    survivable_exceptions {
        exceptions_are_agreed_when_both_ask: OptimisticReads,
        private_data_stands_beside_the_offer: OptimisticReads,
        a_rejection_brings_its_private_data: OptimisticReads,
        too_much_private_data_is_refused_at_home: OptimisticReads,
        every_size_is_read: OptimisticReads,
        the_status_of_an_open_file_is_read: OptimisticReads,
        many_are_in_flight_in_both_directions: OptimisticReads,
        a_refusal_fails_its_read_alone: OptimisticReads,
        ordinary_reads_survive_refusals_too: OptimisticReads,
        a_reference_serves_its_connection_alone: OptimisticReads,
        a_peer_with_another_key_reads_nothing: OptimisticReads,
        an_object_removed_meanwhile_is_read_whole_or_not_at_all: OptimisticReads,
        a_cold_file_is_refused_and_stays_cold: OptimisticReads,
        impossible_reads_are_refused_at_home: OptimisticReads,
        a_sink_taken_away_fails_the_read: OptimisticReads,
        reads_beyond_the_depth_wait_their_turn: OptimisticReads,
        a_write_seen_by_its_writer_is_seen_by_readers: OptimisticReads,
    }
    ending {
        close_drains,
        close_is_seen_by_idle_peers,
        nothing_is_posted_after_close,
        abort_flushes,
        an_abort_is_seen_by_the_peer,
        a_dropped_endpoint_ends_the_connection,
        keys_die_with_their_connection: BoundKeys,
    }
}

/// Demands that something holds.
#[track_caller]
fn ensure(holds: bool, what: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Broken::new(what))
    }
}

/// Demands that two values are equal.
#[track_caller]
fn ensure_eq<T: PartialEq + fmt::Debug>(what: &str, actual: T, expected: T) -> Outcome {
    if actual == expected {
        Ok(())
    } else {
        Err(Broken::new(format!("{what}: {actual:?}, not {expected:?}")))
    }
}

/// Demands that bytes are the same, naming the first that differs.
#[track_caller]
fn ensure_bytes(what: &str, actual: &[u8], expected: &[u8]) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    let same = actual
        .iter()
        .zip(expected)
        .take_while(|(actual, expected)| actual == expected)
        .count();
    Err(Broken::new(format!(
        "{what}: {} bytes for {}, differing from byte {same}",
        actual.len(),
        expected.len()
    )))
}
