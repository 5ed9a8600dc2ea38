//! The numbers of the native protocol of volumes, which peers of other builds use too.

use gannet_wire::volume::{Operation, VERSION};

/// By hand, and not from the declaration: a renumbered operation breaks all peers that run.
const OPERATIONS: &[(u16, Operation)] = &[
    (0x0001, Operation::Hello),
    (0x0002, Operation::Buffers),
    (0x0101, Operation::Getattr),
    (0x0102, Operation::Setattr),
    (0x0103, Operation::Lookup),
    (0x0104, Operation::Access),
    (0x0105, Operation::Readlink),
    (0x0108, Operation::Create),
    (0x0109, Operation::Mkdir),
    (0x010a, Operation::Symlink),
    (0x010b, Operation::Mknod),
    (0x010c, Operation::Remove),
    (0x010d, Operation::Rmdir),
    (0x010e, Operation::Rename),
    (0x010f, Operation::Link),
    (0x0111, Operation::Readdirplus),
    (0x0201, Operation::Layout),
    (0x0202, Operation::Volume),
    (0x0203, Operation::Register),
    (0x0204, Operation::GiveBack),
    (0x0205, Operation::Stripes),
    (0x0206, Operation::Files),
    (0x0207, Operation::Orphans),
    (0x0208, Operation::CreateStriped),
    (0x0209, Operation::Claim),
    (0x0210, Operation::Lock),
    (0x0211, Operation::RenewLocks),
    (0x0212, Operation::Append),
    (0x0213, Operation::GroupWish),
    (0x0214, Operation::Copies),
    (0x0215, Operation::StaleGroups),
    (0x0216, Operation::Metadata),
    (0x0217, Operation::Managers),
    (0x0218, Operation::NumberLease),
    (0x0301, Operation::Read),
    (0x0302, Operation::Write),
    (0x0303, Operation::Commit),
    (0x0305, Operation::Truncate),
    (0x0306, Operation::Unlink),
    (0x0307, Operation::Usage),
    (0x0308, Operation::States),
    (0x0309, Operation::Objects),
    (0x030a, Operation::Revoke),
    (0x0310, Operation::OpenBuffer),
    (0x0311, Operation::CloseBuffer),
    (0x0312, Operation::Term),
    (0x0313, Operation::References),
    (0x0314, Operation::StateReferences),
    (0x0315, Operation::Groups),
    (0x0316, Operation::Replicate),
    (0x0317, Operation::Renew),
];

#[test]
fn operations_keep_their_numbers() {
    assert_eq!(VERSION, 6, "another version may have other numbers");
    let pinned: Vec<Operation> = OPERATIONS.iter().map(|(_, operation)| *operation).collect();
    assert_eq!(pinned, Operation::ALL);
    for (number, operation) in OPERATIONS {
        assert_eq!(*operation as u16, *number, "{operation:?}");
        assert_eq!(Operation::from_number(*number), Some(*operation));
    }
}
