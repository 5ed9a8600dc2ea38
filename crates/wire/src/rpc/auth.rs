//! Credentials and verifiers (RFC 5531 sections 8.2 and 14).

use super::AUTH_BODY_MAX;
use crate::printable;
use crate::xdr::{Decoder, Encoder, XdrError, pad_len};
use core::fmt;

/// Most supplementary groups in an AUTH_SYS credential.
pub const GROUPS_MAX: usize = 16;
/// Most bytes of the machine name in an AUTH_SYS credential.
pub const MACHINE_NAME_MAX: usize = 255;

/// The kind of a credential or verifier (`auth_flavor`, RFC 5531 section 8.2). Any number may arrive; those that Gannet
/// knows have names, by which they print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthFlavor(pub u32);

impl AuthFlavor {
    /// AUTH_NONE: no authentication.
    pub const NONE: AuthFlavor = AuthFlavor(0);
    /// AUTH_SYS: user and group numbers that the server believes as sent ([`AuthSys`]).
    pub const SYS: AuthFlavor = AuthFlavor(1);
    /// RPCSEC_GSS (RFC 2203).
    pub const RPCSEC_GSS: AuthFlavor = AuthFlavor(6);
    /// AUTH_TLS: a NULL call with it asks for TLS (RFC 9289 section 4.1).
    pub const TLS: AuthFlavor = AuthFlavor(7);
}

impl fmt::Display for AuthFlavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AuthFlavor::NONE => f.write_str("none"),
            AuthFlavor::SYS => f.write_str("sys"),
            AuthFlavor::RPCSEC_GSS => f.write_str("gss"),
            AuthFlavor::TLS => f.write_str("tls"),
            AuthFlavor(other) => write!(f, "{other}"),
        }
    }
}

/// A credential or verifier with an uninterpreted body (`opaque_auth`, RFC 5531 section 8.2).
///
/// The printer leaves the body out: a log must not carry rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// The kind, which determines the format of the body.
    pub flavor: AuthFlavor,
    /// The body, at most [`AUTH_BODY_MAX`] bytes.
    pub body: &'a [u8],
}

impl fmt::Display for OpaqueAuth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.flavor)?;
        if !self.body.is_empty() {
            write!(f, "({} bytes)", self.body.len())?;
        }
        Ok(())
    }
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE: flavor 0, no body.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: AuthFlavor::NONE,
        body: &[],
    };

    /// Takes flavor and body off the front of `decoder`.
    ///
    /// # Errors
    /// - [`XdrError::Short`]: the bytes end early.
    /// - [`XdrError::TooLong`]: the body is longer than [`AUTH_BODY_MAX`].
    #[inline]
    pub fn parse(decoder: &mut Decoder<'a>) -> Result<OpaqueAuth<'a>, XdrError> {
        let flavor = AuthFlavor(decoder.u32()?);
        let body = decoder.opaque(AUTH_BODY_MAX)?;
        Ok(OpaqueAuth { flavor, body })
    }

    /// Appends flavor and body.
    #[inline]
    pub fn emit(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.flavor.0);
        encoder.opaque(self.body);
    }

    /// Bytes that [`OpaqueAuth::emit`] appends.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        8 + self.body.len() + pad_len(self.body.len())
    }
}

/// The supplementary groups of an AUTH_SYS credential: at most [`GROUPS_MAX`] group numbers, held in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Groups {
    values: [u32; GROUPS_MAX],
    count: usize,
}

impl Groups {
    /// Keeps the first [`GROUPS_MAX`] of `groups`, as every AUTH_SYS client must.
    pub fn new(groups: &[u32]) -> Groups {
        let mut kept = Groups::default();
        for (place, group) in kept.values.iter_mut().zip(groups) {
            *place = *group;
            kept.count += 1;
        }
        kept
    }

    /// The groups in the order sent.
    #[inline]
    pub fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or(&self.values)
    }
}

/// The body of an AUTH_SYS credential (`authsys_parms`, RFC 5531 appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary number that the caller's machine chose.
    pub stamp: u32,
    /// The name of the caller's machine, at most [`MACHINE_NAME_MAX`] bytes in no promised encoding.
    pub machine_name: &'a [u8],
    /// The number of the effective user.
    pub uid: u32,
    /// The number of the effective group.
    pub gid: u32,
    /// The supplementary groups (`gids`).
    pub groups: Groups,
}

impl fmt::Display for AuthSys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = printable(self.machine_name);
        write!(f, "AUTH_SYS uid={} gid={} gids=", self.uid, self.gid)?;
        for (index, group) in self.groups.as_slice().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{group}")?;
        }
        write!(f, " machine=\"{name}\"")
    }
}

impl<'a> AuthSys<'a> {
    /// Reads the whole body of a credential. The server answers each error with AUTH_BADCRED.
    ///
    /// # Errors
    /// - [`XdrError::TooLong`]: the name is longer than [`MACHINE_NAME_MAX`], or there are more than [`GROUPS_MAX`]
    ///   groups.
    /// - [`XdrError::Short`], [`XdrError::Trailing`]: the body ends before or after its content.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<AuthSys<'a>, XdrError> {
        let mut decoder = Decoder::new(body);
        let stamp = decoder.u32()?;
        let machine_name = decoder.string(MACHINE_NAME_MAX)?;
        let uid = decoder.u32()?;
        let gid = decoder.u32()?;
        let (values, count) = decoder.u32_array::<GROUPS_MAX>()?;
        decoder.finish()?;
        let groups = Groups { values, count };
        Ok(AuthSys {
            stamp,
            machine_name,
            uid,
            gid,
            groups,
        })
    }

    /// Appends the body.
    #[inline]
    pub fn emit(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.stamp);
        encoder.opaque(self.machine_name);
        encoder.u32(self.uid);
        encoder.u32(self.gid);
        encoder.u32_array(self.groups.as_slice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_credential_prints_on_a_line() {
        let body = b"\0\0\0\x2a\0\0\0\x04lab1\0\0\x03\xe8\0\0\0\x64\0\0\0\x02\0\0\0\x04\0\0\0\x18";
        let credential = OpaqueAuth {
            flavor: AuthFlavor::SYS,
            body,
        };
        assert_eq!(credential.to_string(), "sys(32 bytes)");
        assert_eq!(
            AuthSys::parse(body).unwrap().to_string(),
            "AUTH_SYS uid=1000 gid=100 gids=4,24 machine=\"lab1\""
        );
        assert_eq!(OpaqueAuth::NONE.to_string(), "none");
        assert_eq!(AuthFlavor(390_003).to_string(), "390003");
    }
}
