//! The settings of a provider.

use crate::limits::{COMPLETIONS_MAX, MESSAGE_SLOTS_MAX};
use std::net::IpAddr;

/// The device of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first device.
    #[default]
    First,
    /// The device with this name of the kernel's.
    Name(String),
    /// The device of the network interface with this address.
    Address(IpAddr),
}

/// The settings of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbsConfig {
    /// The device. Connections that lead through another device are refused.
    pub device: DeviceChoice,
    /// Completions for which one completion queue has room, at most. The device's limit is respected.
    pub completions_max: u32,
    /// Registered slots for messages of up to [`crate::limits::MESSAGE_SLOT_LEN`] bytes, at most.
    pub message_slots_max: u32,
    /// Registers memory of the protocols without pinning it: the device fetches its pages when it needs them. Messages
    /// and receives stay pinned. A device without on-demand paging is refused.
    pub on_demand_paging: bool,
}

impl Default for VerbsConfig {
    fn default() -> VerbsConfig {
        VerbsConfig {
            device: DeviceChoice::First,
            completions_max: COMPLETIONS_MAX,
            message_slots_max: MESSAGE_SLOTS_MAX,
            on_demand_paging: false,
        }
    }
}

impl VerbsConfig {
    /// Default settings for the device of the network interface with this address.
    pub fn at(address: IpAddr) -> VerbsConfig {
        VerbsConfig {
            device: DeviceChoice::Address(address),
            ..VerbsConfig::default()
        }
    }
}
