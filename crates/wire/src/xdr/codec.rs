//! Values to XDR and back, and the macros that write both for plain records and enumerations.

use crate::xdr::{Decoder, Encoder, XdrError};
use alloc::vec::Vec;

/// A value that can be written as XDR.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

/// A value that can be read from XDR, borrowing what it can from the message.
pub trait Decode<'a>: Sized {
    /// Takes a value off the front of `decoder`.
    ///
    /// # Errors
    /// - [`XdrError::Short`]: the bytes end within the value.
    /// - [`XdrError::TooLong`]: a variable length exceeds the bound of its type.
    /// - [`XdrError::Bool`]: a boolean, or the flag of an optional item, is neither 0 nor 1.
    /// - [`XdrError::Value`], [`XdrError::Unknown`]: a number is outside of its type.
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError>;
}

/// The one value that all of `bytes` encode.
///
/// # Errors
/// The errors of [`Decode::decode`], and [`XdrError::Trailing`]: bytes follow the value.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, XdrError> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// The XDR of a value, in a new `Vec`.
pub fn to_bytes(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut Encoder<'_>) {}
}

impl Decode<'_> for () {
    #[inline]
    fn decode(_: &mut Decoder<'_>) -> Result<(), XdrError> {
        Ok(())
    }
}

impl Encode for u32 {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(*self);
    }
}

impl Decode<'_> for u32 {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<u32, XdrError> {
        decoder.u32()
    }
}

impl Encode for u64 {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(*self);
    }
}

impl Decode<'_> for u64 {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<u64, XdrError> {
        decoder.u64()
    }
}

impl Encode for i64 {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.cast_unsigned());
    }
}

impl Decode<'_> for i64 {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<i64, XdrError> {
        decoder.u64().map(u64::cast_signed)
    }
}

impl Encode for bool {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(*self);
    }
}

impl Decode<'_> for bool {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<bool, XdrError> {
        decoder.bool()
    }
}

/// The verifiers of NFS.
impl Encode for [u8; 8] {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(self);
    }
}

impl Decode<'_> for [u8; 8] {
    #[inline]
    fn decode(decoder: &mut Decoder<'_>) -> Result<[u8; 8], XdrError> {
        decoder.fixed::<8>().copied()
    }
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.is_some());
        if let Some(value) = self {
            value.encode(encoder);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(decoder: &mut Decoder<'a>) -> Result<Option<T>, XdrError> {
        if decoder.bool()? {
            T::decode(decoder).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Declares a struct whose XDR form is that of its fields, one after the other, and which prints by their names:
///
/// ```text
/// record! { Type<'a> = "NAME" { field: FieldType, other: u32 as "key" via wrapper, } }
/// ```
///
/// A record without a name and without lifetime has no printer.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident = $wire:literal {
        $($(#[$note:meta])* $field:ident: $type:ty $(as $key:literal $(via $wrapper:ident)?)?,)*
    }) => {
        $crate::xdr::record! {
            $(#[$meta])* $name { $($(#[$note])* $field: $type,)* }
        }

        $crate::xdr::printed! {
            $name = $wire { $($field $(as $key $(via $wrapper)?)?,)* }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$note:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$note])* pub $field: $type,)* }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, encoder: &mut $crate::xdr::Encoder<'_>) {
                $($crate::xdr::Encode::encode(&self.$field, encoder);)*
            }
        }

        impl $crate::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(
                decoder: &mut $crate::xdr::Decoder<'_>,
            ) -> Result<Self, $crate::xdr::XdrError> {
                Ok($name { $($field: $crate::xdr::Decode::decode(decoder)?,)* })
            }
        }
    };
    ($(#[$meta:meta])* $name:ident<$life:lifetime> = $wire:literal {
        $($(#[$note:meta])* $field:ident: $type:ty $(as $key:literal $(via $wrapper:ident)?)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<$life> { $($(#[$note])* pub $field: $type,)* }

        impl $crate::xdr::Encode for $name<'_> {
            #[inline]
            fn encode(&self, encoder: &mut $crate::xdr::Encoder<'_>) {
                $($crate::xdr::Encode::encode(&self.$field, encoder);)*
            }
        }

        impl<$life> $crate::xdr::Decode<$life> for $name<$life> {
            #[inline]
            fn decode(
                decoder: &mut $crate::xdr::Decoder<$life>,
            ) -> Result<Self, $crate::xdr::XdrError> {
                Ok($name { $($field: $crate::xdr::Decode::decode(decoder)?,)* })
            }
        }

        $crate::xdr::printed! {
            $name<$life> = $wire { $($field $(as $key $(via $wrapper)?)?,)* }
        }
    };
}

/// Declares an enum whose XDR form is its number and which prints as a word; other numbers are refused.
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$note:meta])* $variant:ident = $code:literal => $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$note])* $variant = $code,)* }

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, encoder: &mut $crate::xdr::Encoder<'_>) {
                encoder.u32(*self as u32);
            }
        }

        impl $crate::xdr::Decode<'_> for $name {
            #[inline]
            fn decode(decoder: &mut $crate::xdr::Decoder<'_>) -> Result<Self, $crate::xdr::XdrError> {
                match decoder.u32()? {
                    $($code => Ok($name::$variant),)*
                    _ => Err($crate::xdr::XdrError::Value),
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $($name::$variant => $word,)* })
            }
        }

        $crate::xdr::print_as_display!($name);
    };
}

pub(crate) use {enumeration, record};
