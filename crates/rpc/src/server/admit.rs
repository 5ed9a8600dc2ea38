//! From message bytes to a call: the checks that every program needs, and the answers that need no program.

use super::worker::Job;
use crate::service::{Credential, CredentialFault, Program, Service, Verdict};
use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthStat, AuthSys, CallHeader, CallHeaderError, GROUPS_MAX,
    MACHINE_NAME_MAX, OpaqueAuth, Rejection,
};
use gannet_wire::xdr::{Decoder, XdrError};

/// The result of [`admit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The job's call is to be executed. Its arguments begin so many bytes into the message.
    Execute {
        /// Bytes of the header.
        arguments_at: usize,
    },
    /// The job's reply is the answer already. The fault of the call's credential, if that is the reason.
    Answer(Option<CredentialFault>),
}

/// Takes a call's header apart into `job`. Arguments, peer and transport are left to the caller.
///
/// # Errors
/// [`CallHeaderError`] other than `RpcMismatch` and `BadAuth`, which have replies of their own: the message is no RPC
/// call, and gets no answer.
pub(crate) fn admit<S: Service>(
    service: &S,
    job: &mut Job,
    message: &[u8],
) -> Result<Admission, CallHeaderError> {
    let mut decoder = Decoder::new(message);
    let header = match CallHeader::parse(&mut decoder) {
        Ok(header) => header,
        Err(CallHeaderError::RpcMismatch { xid, .. }) => {
            return Ok(answer(
                job,
                xid,
                Verdict::Denied(Rejection::RpcMismatch { low: 2, high: 2 }),
            ));
        }
        Err(CallHeaderError::BadAuth { xid, .. }) => {
            return Ok(deny(job, xid, CredentialFault::Malformed));
        }
        Err(error) => return Err(error),
    };
    let credential = match parse_credential(&header.credential) {
        Ok(credential) => credential,
        Err(fault) => return Ok(deny(job, header.xid, fault)),
    };
    if let Err(status) = check_procedure(service.programs(), &header) {
        return Ok(answer(job, header.xid, Verdict::Accepted(status)));
    }
    let call = &mut job.call;
    call.xid = header.xid;
    call.program = header.program;
    call.version = header.version;
    call.procedure = header.procedure;
    call.credential = credential;
    Ok(Admission::Execute {
        arguments_at: decoder.position(),
    })
}

fn answer(job: &mut Job, xid: u32, verdict: Verdict) -> Admission {
    job.call.xid = xid;
    job.reply.clear();
    job.reply.verdict = verdict;
    Admission::Answer(None)
}

fn deny(job: &mut Job, xid: u32, fault: CredentialFault) -> Admission {
    let status = match fault {
        CredentialFault::Malformed | CredentialFault::TooManyGroups { .. } => AuthStat::BADCRED,
        CredentialFault::Flavor(_) => AuthStat::REJECTEDCRED,
    };
    answer(job, xid, Verdict::Denied(Rejection::AuthError(status)));
    Admission::Answer(Some(fault))
}

fn parse_credential(credential: &OpaqueAuth<'_>) -> Result<Credential, CredentialFault> {
    match credential.flavor {
        AuthFlavor::NONE => Ok(Credential::None),
        AuthFlavor::SYS => {
            let sys = AuthSys::parse(credential.body);
            let sys = sys.map_err(|_| fault_of(credential.body))?;
            Ok(Credential::Sys {
                uid: sys.uid,
                gid: sys.gid,
                groups: sys.groups,
            })
        }
        other => Err(CredentialFault::Flavor(other.0)),
    }
}

/// The reason why the body of an AUTH_SYS credential cannot be used.
fn fault_of(body: &[u8]) -> CredentialFault {
    let mut decoder = Decoder::new(body);
    let mut groups = || {
        decoder.u32()?;
        decoder.string(MACHINE_NAME_MAX)?;
        Ok::<_, XdrError>((decoder.u32()?, decoder.u32()?, decoder.u32()?))
    };
    match groups() {
        Ok((uid, gid, count)) if count as usize > GROUPS_MAX => {
            CredentialFault::TooManyGroups { uid, gid }
        }
        _ => CredentialFault::Malformed,
    }
}

fn check_procedure(programs: &[Program], header: &CallHeader<'_>) -> Result<(), AcceptStatus> {
    let mut mismatch: Option<(u32, u32)> = None;
    for program in programs
        .iter()
        .filter(|program| program.number == header.program)
    {
        if (program.low..=program.high).contains(&header.version) {
            let known = header.procedure < program.procedures;
            return if known {
                Ok(())
            } else {
                Err(AcceptStatus::ProcUnavail)
            };
        }
        let (low, high) = mismatch.unwrap_or((program.low, program.high));
        mismatch = Some((low.min(program.low), high.max(program.high)));
    }
    Err(match mismatch {
        Some((low, high)) => AcceptStatus::ProgMismatch { low, high },
        None => AcceptStatus::ProgUnavail,
    })
}
