//! The description of the volume that the manager gives, and the messages of I/O servers about themselves.

use super::WIDTH_MAX;
use super::group::{GROUPS_MAX, GroupRecord};
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Items, Quoted, XdrError, print_as_display, printed,
    record,
};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most bytes of a host: those of a name of the Domain Name System (RFC 1035 section 2.3.4).
pub const HOST_MAX: usize = 255;
/// Most bytes of the name of a volume.
pub const NAME_MAX: usize = 255;

/// The address that a server listens at (`address`). It prints as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Address {
    /// A name or an IP address, at most [`HOST_MAX`] bytes; empty stands for the host that the manager was reached at.
    pub host: String,
    /// The TCP port; 0 when the address is not known.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}",
            crate::printable(self.host.as_bytes()),
            self.port
        )
    }
}

print_as_display!(Address);

impl Address {
    /// True unless the port is 0.
    pub fn is_known(&self) -> bool {
        self.port != 0
    }
}

impl Encode for Address {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.host.as_bytes());
        encoder.u32(u32::from(self.port));
    }
}

impl Decode<'_> for Address {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Address, XdrError> {
        let host = text(decoder, HOST_MAX)?;
        let port = u16::try_from(decoder.u32()?).map_err(|_| XdrError::Value)?;
        Ok(Address { host, port })
    }
}

pub(super) fn text(decoder: &mut Decoder<'_>, max: usize) -> Result<String, XdrError> {
    let bytes = decoder.opaque(max)?.to_vec();
    String::from_utf8(bytes).map_err(|_| XdrError::Value)
}

/// A volume and some of its I/O servers (`volume`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// The name of the volume for people, at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Bytes of a stripe of files without stripes of their own. Not 0.
    pub unit: u32,
    /// The number of I/O servers of such files, at most `count`; 0 stands for all.
    pub width: u32,
    /// The number of I/O servers of the volume, from 1 to [`WIDTH_MAX`].
    pub count: u32,
    /// The number of groups of I/O servers, from 1 to [`GROUPS_MAX`].
    pub group_count: u32,
    /// The addresses of I/O servers, from the number in the request on, as many as a message holds.
    pub servers: Vec<Address>,
    /// The groups, from the number in the request on, as many as a message holds behind the addresses.
    pub groups: Vec<GroupRecord>,
}

record! {
    /// The request for a [`VolumeRecord`] (`volume_request`): where its lists begin.
    #[derive(Default)]
    VolumeRequest = "volume_request" {
        /// The first I/O server.
        server: u32,
        /// The first group.
        group: u32,
    }
}

printed! {
    VolumeRecord = "volume" {
        name as "name" via Quoted,
        unit,
        width,
        count,
        group_count as "group_count",
        servers as "servers" via Items,
        groups as "groups" via Count,
    }
}

impl Encode for VolumeRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(self.name.as_bytes());
        for word in [self.unit, self.width, self.count, self.group_count] {
            encoder.u32(word);
        }
        // Bounded by WIDTH_MAX.
        encoder.u32(self.servers.len() as u32);
        self.servers.iter().for_each(|it| it.encode(encoder));
        // Bounded by GROUPS_MAX.
        encoder.u32(self.groups.len() as u32);
        self.groups.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for VolumeRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<VolumeRecord, XdrError> {
        let name = text(decoder, NAME_MAX)?;
        let (unit, width, count) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
        let group_count = decoder.u32()?;
        let are_bounded = count as usize <= WIDTH_MAX && group_count as usize <= GROUPS_MAX;
        if count == 0 || group_count == 0 || !are_bounded || width > count || unit == 0 {
            return Err(XdrError::Value);
        }
        let servers = (0..decoder.length(count as usize)?).map(|_| Address::decode(decoder));
        let servers = servers.collect::<Result<_, _>>()?;
        let groups =
            (0..decoder.length(group_count as usize)?).map(|_| GroupRecord::decode(decoder));
        Ok(VolumeRecord {
            name,
            unit,
            width,
            count,
            group_count,
            servers,
            groups: groups.collect::<Result<_, _>>()?,
        })
    }
}

/// The request of an I/O server that finds its folder empty (Claim).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRecord {
    /// The number of the server.
    pub number: u32,
    /// The operator reports that its disk is lost, and not only away.
    pub is_lost: bool,
}

printed! { ClaimRecord = "claim" { number, is_lost as "lost", } }

impl Encode for ClaimRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.number);
        encoder.bool(self.is_lost);
    }
}

impl Decode<'_> for ClaimRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ClaimRecord, XdrError> {
        Ok(ClaimRecord {
            number: decoder.u32()?,
            is_lost: decoder.bool()?,
        })
    }
}

/// The request of an I/O server that reports its address (`register`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterRecord {
    /// The number of the server, below [`WIDTH_MAX`].
    pub number: u32,
    /// The address of the server. An empty host stands for the one that the connection comes from.
    pub address: Address,
}

printed! { RegisterRecord = "register" { number, address, } }

impl Encode for RegisterRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.number);
        self.address.encode(encoder);
    }
}

impl Decode<'_> for RegisterRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<RegisterRecord, XdrError> {
        let number = decoder.u32()?;
        if number as usize >= WIDTH_MAX {
            return Err(XdrError::Value);
        }
        Ok(RegisterRecord {
            number,
            address: Address::decode(decoder)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn record() -> VolumeRecord {
        let address = |host: &str, port| Address {
            host: String::from(host),
            port,
        };
        VolumeRecord {
            name: String::from("data"),
            unit: 65536,
            width: 0,
            count: 3,
            group_count: 5,
            servers: alloc::vec![address("", 0), address("io2.example", 20051)],
            groups: alloc::vec![GroupRecord::of(2)],
        }
    }

    #[test]
    fn records_are_laid_out_as_documented() {
        let expected = [
            &b"\0\0\0\x04data"[..],
            b"\0\x01\0\0\0\0\0\0\0\0\0\x03\0\0\0\x05",
            b"\0\0\0\x02",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\x0bio2.example\0\0\0\x4e\x53",
            b"\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\0",
        ];
        assert_eq!(bytes(&record()), expected.concat());
        assert_eq!(
            record().to_string(),
            "volume name=\"data\" unit=65536 width=0 count=3 group_count=5 \
             servers=[:0,io2.example:20051] groups=1"
        );
        let register = RegisterRecord {
            number: 2,
            address: Address::default(),
        };
        assert_eq!(bytes(&register), b"\0\0\0\x02\0\0\0\0\0\0\0\0");
        assert_eq!(
            from_bytes::<RegisterRecord>(&bytes(&register)),
            Ok(register)
        );
    }

    #[test]
    fn records_come_back_as_they_went_in_and_whole() {
        let sent = bytes(&record());
        assert_eq!(from_bytes::<VolumeRecord>(&sent), Ok(record()));
        for len in 0..sent.len() {
            assert!(from_bytes::<VolumeRecord>(&sent[..len]).is_err());
        }
    }

    #[test]
    fn impossible_records_are_refused() {
        let volume = |change: fn(&mut VolumeRecord)| {
            let mut record = record();
            change(&mut record);
            from_bytes::<VolumeRecord>(&bytes(&record))
        };
        assert!(volume(|it| it.count = 0).is_err());
        assert!(volume(|it| it.count = 1).is_err());
        assert!(volume(|it| it.count = 257).is_err());
        assert!(volume(|it| it.group_count = 0).is_err());
        assert!(volume(|it| it.group_count = 4097).is_err());
        assert!(volume(|it| it.width = 4).is_err());
        assert!(volume(|it| it.unit = 0).is_err());
        let far = RegisterRecord {
            number: 256,
            address: Address::default(),
        };
        assert!(from_bytes::<RegisterRecord>(&bytes(&far)).is_err());
        let port = b"\0\0\0\0\0\x01\0\0";
        assert!(from_bytes::<Address>(port).is_err());
    }
}
