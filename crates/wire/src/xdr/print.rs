//! One-line printers of XDR values, for logs and for `gannet dump`.
//!
//! A record prints as its name and its fields, `READ3args file=0102 offset=0 count=4096`, by the names that its
//! standard gives them. A record within a record stands in parentheses, without its name. Fields that are absent, and
//! records without any other fields, are left out.

use crate::{Hex, printable};
use core::fmt;

/// A value that prints as a field of a line.
pub trait Print {
    /// Writes the value.
    ///
    /// # Errors
    /// [`fmt::Error`] of the formatter.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// True for a value that is left out of a line.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Displays a value as [`Print`] writes it, for `write!` and for logs.
#[derive(Debug, Clone, Copy)]
pub struct Printed<'a, T>(pub &'a T);

impl<T: Print> fmt::Display for Printed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.print(f)
    }
}

/// Writes `key=value` behind `gap`, which separates it from the field before; nothing of an absent value. `gap` becomes
/// that of the next field.
pub(crate) fn print_field<T: Print>(
    f: &mut fmt::Formatter<'_>,
    gap: &mut &str,
    key: &str,
    value: &T,
) -> fmt::Result {
    if value.is_absent() {
        return Ok(());
    }
    write!(f, "{gap}{key}={}", Printed(value))?;
    *gap = " ";
    Ok(())
}

/// Prints the values of a type as [`fmt::Display`] does.
macro_rules! print_as_display {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::xdr::Print for $type {
            fn print(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        })*
    };
}

print_as_display!(u16, u32, u64, i64, bool);

/// Verifiers, tokens.
impl<const N: usize> Print for [u8; N] {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(self), f)
    }
}

impl Print for () {
    fn print(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn is_absent(&self) -> bool {
        true
    }
}

impl<T: Print> Print for Option<T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(value) => value.print(f),
            None => f.write_str("-"),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Print> Print for &T {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).print(f)
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

/// Prints the length of opaque bytes in place of the bytes.
pub(crate) struct Length<'a>(pub(crate) &'a [u8]);

impl Print for Length<'_> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

/// Prints the number of a list's elements.
pub(crate) struct Count<'a, T>(pub(crate) &'a [T]);

impl<T> Print for Count<'_, T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.len())
    }
}

/// Prints the elements of a list with commas; absent elements as `-`.
pub(crate) struct Items<'a, T>(pub(crate) &'a [T]);

impl<T: Print> Print for Items<'_, T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", Printed(item))?;
        }
        f.write_str("]")
    }
}

/// Prints bytes or text in quotes, with escapes for what could control a terminal.
pub(crate) struct Quoted<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: AsRef<[u8]> + ?Sized> Print for Quoted<'_, T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", printable(self.0.as_ref()))
    }
}

/// Prints permission bits in octal.
pub(crate) struct Octal<T>(pub(crate) T);

impl Print for Octal<&u32> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl Print for Octal<&Option<u32>> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |mode| Octal(mode).print(f))
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

/// Prints a struct by its fields: `printed!(Type = "NAME" { field, field as "key", field as "key" via Wrapper });`. A
/// wrapper takes a reference to the field and prints in its place.
macro_rules! printed {
    ($name:ident $(<$life:lifetime>)? = $wire:literal {
        $($field:ident $(as $key:literal $(via $wrapper:ident)?)?,)*
    }) => {
        impl $(<$life>)? $name $(<$life>)? {
            /// Writes the fields.
            fn print_fields(
                &self,
                f: &mut core::fmt::Formatter<'_>,
                gap: &str,
            ) -> core::fmt::Result {
                #[allow(unused_mut, unused_variables)] // of records without fields that print
                let mut gap = gap;
                $($crate::xdr::print_field(
                    f,
                    &mut gap,
                    $crate::xdr::printed!(@key $field $($key)?),
                    &$crate::xdr::printed!(@value &self.$field, $($($wrapper)?)?),
                )?;)*
                Ok(())
            }
        }

        impl $(<$life>)? core::fmt::Display for $name $(<$life>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($wire)?;
                self.print_fields(f, " ")
            }
        }

        impl $(<$life>)? $crate::xdr::Print for $name $(<$life>)? {
            fn print(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("(")?;
                self.print_fields(f, "")?;
                f.write_str(")")
            }

            fn is_absent(&self) -> bool {
                true $(&& $crate::xdr::Print::is_absent(
                    &$crate::xdr::printed!(@value &self.$field, $($($wrapper)?)?)
                ))*
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@value $value:expr,) => { $value };
    (@value $value:expr, $wrapper:ident) => { $wrapper($value) };
}

pub(crate) use {print_as_display, printed};
