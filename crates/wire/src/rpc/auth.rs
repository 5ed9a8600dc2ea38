//! Credentials and verifiers (RFC 5531 sections 8.2 and 14).

use super::AUTH_BODY_MAX;
use crate::xdr::{Decoder, Encoder, XdrError, pad_len};

/// Most supplementary groups in an AUTH_SYS credential.
pub const GROUPS_MAX: usize = 16;
/// Longest machine name in an AUTH_SYS credential.
pub const MACHINE_NAME_MAX: usize = 255;

/// The kind of an authenticator. Any number may arrive; the ones Gannet knows have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthFlavor(pub u32);

impl AuthFlavor {
    /// No authentication.
    pub const NONE: AuthFlavor = AuthFlavor(0);
    /// Unix user and group numbers, believed as sent.
    pub const SYS: AuthFlavor = AuthFlavor(1);
    /// RPCSEC_GSS (RFC 2203).
    pub const RPCSEC_GSS: AuthFlavor = AuthFlavor(6);
    /// A NULL call with this flavor asks for TLS (RFC 9289 section 4.1).
    pub const TLS: AuthFlavor = AuthFlavor(7);
}

/// A credential or verifier whose body is not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// Its kind.
    pub flavor: AuthFlavor,
    /// Its body, at most [`AUTH_BODY_MAX`] bytes.
    pub body: &'a [u8],
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE: flavor 0, no body.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: AuthFlavor::NONE,
        body: &[],
    };

    /// Takes one off the front of `decoder`.
    ///
    /// # Errors
    /// The bytes end early, or the body is longer than [`AUTH_BODY_MAX`].
    #[inline]
    pub fn parse(decoder: &mut Decoder<'a>) -> Result<OpaqueAuth<'a>, XdrError> {
        let flavor = AuthFlavor(decoder.u32()?);
        let body = decoder.opaque(AUTH_BODY_MAX)?;
        Ok(OpaqueAuth { flavor, body })
    }

    /// Appends it.
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

/// The supplementary groups of an AUTH_SYS credential: at most [`GROUPS_MAX`], held in place.
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

/// The body of an AUTH_SYS credential (RFC 5531 appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary number of the caller's machine.
    pub stamp: u32,
    /// The caller's machine, at most [`MACHINE_NAME_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Groups,
}

impl<'a> AuthSys<'a> {
    /// Reads a credential's whole body.
    ///
    /// # Errors
    /// A bound is exceeded (the server answers AUTH_BADCRED), or the body is longer or shorter than its content.
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
