//! Common parts of the NFS tests: words in hexadecimal, and any value of each type.
#![allow(dead_code, clippy::unwrap_used)] // every test program uses its own part

use gannet_wire::nfs3::*;
use gannet_wire::xdr::{Decode, Encode, Encoder, XdrError, from_bytes};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The bytes of `text`: hexadecimal digits, white space between them ignored.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert_eq!(digits.len() % 2, 0, "odd number of digits in {text}");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// The XDR of `value`, written behind other bytes of a dirty buffer.
pub(crate) fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out = vec![0xa5; 5];
    let mut encoder = Encoder::new(&mut out);
    value.encode(&mut encoder);
    let length = encoder.position();
    assert_eq!(length % 4, 0, "XDR comes in fours");
    out.split_off(5)
}

/// `value` is exactly `words`, both ways; every shorter or longer message is refused.
pub(crate) fn check<'a, T>(value: &T, words: &'a [u8])
where
    T: Encode + Decode<'a> + PartialEq + std::fmt::Debug,
{
    assert_eq!(encoded(value), words, "encoding {value:?}");
    assert_eq!(from_bytes::<T>(words).as_ref(), Ok(value));
    for length in 0..words.len() {
        assert_eq!(
            from_bytes::<T>(&words[..length]).map(|_| ()),
            Err(XdrError::Short),
            "{length} bytes of {value:?}"
        );
    }
}

/// A value that is written is read back as the same, and takes all its bytes.
pub(crate) fn identity<'a, T>(value: &T, buffer: &'a mut Vec<u8>)
where
    T: Encode + Decode<'a> + PartialEq + std::fmt::Debug,
{
    *buffer = encoded(value);
    assert_eq!(from_bytes::<T>(buffer).as_ref(), Ok(value));
    assert!(!format!("{value:?}").is_empty());
}

pub(crate) fn handle() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=HANDLE_MAX)
}

pub(crate) fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

pub(crate) fn time() -> impl Strategy<Value = Time> {
    (any::<u32>(), any::<u32>()).prop_map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    })
}

pub(crate) fn kind() -> impl Strategy<Value = FileType> {
    prop::sample::select(vec![
        FileType::Regular,
        FileType::Directory,
        FileType::BlockDevice,
        FileType::CharacterDevice,
        FileType::Symlink,
        FileType::Socket,
        FileType::Fifo,
    ])
}

pub(crate) fn attributes() -> impl Strategy<Value = Attributes> {
    let words = any::<[u32; 6]>();
    let longs = any::<[u64; 4]>();
    (kind(), words, longs, time(), time(), time()).prop_map(|(kind, words, longs, a, m, c)| {
        Attributes {
            kind,
            mode: words[0],
            link_count: words[1],
            uid: words[2],
            gid: words[3],
            size: longs[0],
            used: longs[1],
            device: Device {
                major: words[4],
                minor: words[5],
            },
            fsid: longs[2],
            fileid: longs[3],
            access_time: a,
            modify_time: m,
            change_time: c,
        }
    })
}

pub(crate) fn wcc() -> impl Strategy<Value = WccData> {
    let before =
        (any::<u64>(), time(), time()).prop_map(|(size, modify_time, change_time)| WccAttributes {
            size,
            modify_time,
            change_time,
        });
    (option::of(before), option::of(attributes()))
        .prop_map(|(before, after)| WccData { before, after })
}

pub(crate) fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![
        Just(SetTime::Keep),
        Just(SetTime::Server),
        time().prop_map(SetTime::Client),
    ]
}

pub(crate) fn set_attributes() -> impl Strategy<Value = SetAttributes> {
    let owner = (any::<Option<u32>>(), any::<Option<u32>>());
    (
        any::<Option<u32>>(),
        owner,
        any::<Option<u64>>(),
        set_time(),
        set_time(),
    )
        .prop_map(
            |(mode, (uid, gid), size, access_time, modify_time)| SetAttributes {
                mode,
                uid,
                gid,
                size,
                access_time,
                modify_time,
            },
        )
}

pub(crate) fn stable() -> impl Strategy<Value = Stable> {
    prop::sample::select(vec![Stable::Unstable, Stable::DataSync, Stable::FileSync])
}

pub(crate) fn status() -> impl Strategy<Value = Nfsstat> {
    (1u32..).prop_map(|code| Nfsstat::new(code).unwrap())
}

/// A result, good or bad.
pub(crate) fn either<T: std::fmt::Debug, E: std::fmt::Debug>(
    good: impl Strategy<Value = T>,
    bad: impl Strategy<Value = E>,
) -> impl Strategy<Value = Result<T, Failed<E>>> {
    prop_oneof![
        good.prop_map(Ok),
        (status(), bad).prop_map(|(status, body)| Err(Failed { status, body })),
    ]
}
