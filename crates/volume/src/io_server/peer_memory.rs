//! A client's memory as a request names it: the places of a walk, and the remote addresses that they stand for.

use gannet_fabric::{RemoteAddress, RemoteKey};
use gannet_vfs::Status;
use gannet_wire::volume::{RegionPiece, Shape};

/// Bits of a place that count within a piece: a piece is shorter than 2^32 bytes.
const WITHIN_BITS: u32 = 32;

/// How places in a client's memory become remote addresses.
pub(super) enum PeerMemory {
    /// Places are the key's own offsets.
    Region(RemoteKey),
    /// The upper half of a place is an index into these, the lower half an offset.
    Regions(Vec<RemoteAddress>),
}

impl PeerMemory {
    /// Memory in several regions, and the shape of its places in the order of the stream.
    pub(super) fn regions(pieces: &[RegionPiece]) -> Result<(PeerMemory, Shape), Status> {
        let address = |it: &RegionPiece| RemoteAddress {
            key: RemoteKey(it.key),
            offset: it.piece.offset,
        };
        let places = pieces.iter().enumerate().map(|(number, it)| {
            let mut place = it.piece;
            place.offset = (number as u64) << WITHIN_BITS;
            place
        });
        let shape = Shape::list(places.collect()).map_err(|_| Status::Inval)?;
        Ok((
            PeerMemory::Regions(pieces.iter().map(address).collect()),
            shape,
        ))
    }

    /// The address of a place.
    ///
    /// # Errors
    /// `Serverfault`: there is no such place.
    pub(super) fn address(&self, place: u64) -> Result<RemoteAddress, Status> {
        match self {
            PeerMemory::Region(key) => Ok(RemoteAddress {
                key: *key,
                offset: place,
            }),
            PeerMemory::Regions(pieces) => {
                let number = usize::try_from(place >> WITHIN_BITS).ok();
                let piece = number.and_then(|number| pieces.get(number));
                let RemoteAddress { key, offset } = *piece.ok_or(Status::Serverfault)?;
                let offset = offset + (place & u64::from(u32::MAX));
                Ok(RemoteAddress { key, offset })
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_wire::volume::Piece;

    #[test]
    fn places_of_pieces_are_addresses_of_their_regions() {
        let piece = |key, offset, len| RegionPiece {
            key,
            piece: Piece { offset, len },
        };
        let pieces = [
            piece(7, 100, 10),
            piece(8, 1 << 50, 20),
            piece(7, 0, u32::MAX >> 8),
        ];
        let (memory, shape) = PeerMemory::regions(&pieces).unwrap();
        for (place, piece) in shape.pieces().zip(pieces) {
            assert_eq!(place.len, piece.piece.len);
            for within in [0, u64::from(place.len) - 1] {
                let address = memory.address(place.offset + within).unwrap();
                let expected = (RemoteKey(piece.key), piece.piece.offset + within);
                assert_eq!((address.key, address.offset), expected);
            }
        }
        assert!(memory.address(3 << WITHIN_BITS).is_err());
    }
}
