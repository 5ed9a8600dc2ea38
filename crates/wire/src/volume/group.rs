//! Groups of I/O servers. Each file lies within one group, and a volume has only one (docs/formats/volume.md).

use crate::xdr::{Decode, Decoder, Encode, Encoder, UnknownItem, XdrError};

/// The number of the group of all I/O servers, 0. Layouts and volume records name it, so that a later release can add
/// groups without another format of inodes. Until then a decoder refuses other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OnlyGroup;

impl Encode for OnlyGroup {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(0);
    }
}

impl Decode<'_> for OnlyGroup {
    fn decode(decoder: &mut Decoder<'_>) -> Result<OnlyGroup, XdrError> {
        match decoder.u32()? {
            0 => Ok(OnlyGroup),
            number => Err(XdrError::Unknown {
                item: UnknownItem::ServerGroup,
                number,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::volume::{Address, LayoutRecord, VolumeRecord};
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::{String, ToString};
    use alloc::vec;

    #[test]
    fn another_group_is_refused_and_named() {
        let layout = LayoutRecord {
            unit: 65536,
            servers: vec![1],
        };
        let mut bytes = to_bytes(&layout);
        bytes[3] = 7;
        let refused = from_bytes::<LayoutRecord>(&bytes).unwrap_err();
        let volume = VolumeRecord {
            name: String::from("data"),
            unit: 65536,
            width: 0,
            count: 1,
            servers: vec![Address::default()],
        };
        let mut bytes = to_bytes(&volume);
        bytes[11] = 7;
        assert_eq!(from_bytes::<VolumeRecord>(&bytes), Err(refused));
        let said = refused.to_string();
        assert!(said.starts_with("group of I/O servers 7"), "{said}");
        assert!(said.contains("use the release of gannet"), "{said}");
    }
}
