//! The families of memory registration, of a server's cores and of clients.

use gannet_fabric::registration::Counters;
use gannet_metrics::{Exposition, Family};

/// In the order of [`collect`].
const FAMILIES: [Family; 8] = [
    Family::counter(
        "gannet_registrations",
        "Uses of memory that made a registration.",
    ),
    Family::counter(
        "gannet_registration_hits",
        "Uses of memory that found a registration.",
    ),
    Family::counter(
        "gannet_registration_fallbacks",
        "Registrations for one use, because the strategy could not serve its own way.",
    ),
    Family::counter(
        "gannet_deregistrations",
        "Registrations revoked by this end.",
    ),
    Family::counter(
        "gannet_registrations_invalidated",
        "Registrations revoked by the peer.",
    ),
    Family::counter(
        "gannet_registrations_lost",
        "Registrations that the provider failed to revoke.",
    ),
    Family::gauge(
        "gannet_registered_bytes",
        "Bytes of registrations in use or kept.",
    ),
    Family::counter(
        "gannet_registration_copied_bytes",
        "Bytes copied to and from memory that stays registered.",
    ),
];
const REGISTER: Family = Family::counter(
    "gannet_registration_seconds",
    "Time spent registering memory.",
);
const DEREGISTER: Family = Family::counter(
    "gannet_deregistration_seconds",
    "Time spent revoking registrations.",
);

/// Adds the counters of registration strategies to what a reader gets.
pub(crate) fn collect(made: &Counters, into: &mut Exposition) {
    let numbers = [
        made.registrations,
        made.hits,
        made.fallbacks,
        made.deregistrations,
        made.invalidated_by_peer,
        made.lost,
        made.bytes,
        made.copied_bytes,
    ];
    for (family, number) in FAMILIES.iter().zip(numbers) {
        into.number(family, &[], number);
    }
    into.real(&REGISTER, &[], made.register_time.as_secs_f64());
    into.real(&DEREGISTER, &[], made.deregister_time.as_secs_f64());
}
