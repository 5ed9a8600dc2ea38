//! RPC calls and replies, down to the arguments and results of their procedures.

use crate::calls::{Call, Calls, ProcedureId};
use crate::line::{Part, Value};
use crate::nfs::{self, Reading};
use gannet_wire::mount3::{self, DirPath, DumpResult, ExportResult, MntResult};
use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthSys, CallHeader, CallHeaderError, MESSAGE_CALL, MESSAGE_REPLY,
    MessageFront, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyHeaderError, ReplyOutcome,
};
use gannet_wire::rpcrdma::ChunkLists;
use gannet_wire::xdr::{Decoder, XdrError, from_bytes};
use gannet_wire::{nfs3, nfsacl3};

const PORTMAP_PROGRAM: u32 = 100_000;
const NLM_PROGRAM: u32 = 100_021;
const NSM_PROGRAM: u32 = 100_024;
/// Columns of an XID.
const XID_WIDTH: usize = 8;
/// Columns of `reply`.
const TYPE_WIDTH: usize = 5;
/// Columns of the longest procedure of NFSv3.
const PROCEDURE_WIDTH: usize = 11;

/// An RPC message as it was put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// Its bytes, without the opaque that travels in a chunk.
    pub(crate) bytes: &'a [u8],
    /// False when its end is missing.
    pub(crate) is_whole: bool,
    /// The way to read it.
    pub(crate) reading: Reading,
}

impl Message<'_> {
    /// True for a reply. Messages that are neither call nor reply, or too short to classify, count as calls.
    pub(crate) fn is_reply(&self) -> bool {
        let front = MessageFront::of(self.bytes);
        front.is_some_and(|front| front.message_type == MESSAGE_REPLY)
    }

    /// Its XID; 0 when it is too short to have one.
    fn xid(&self) -> u32 {
        Decoder::new(self.bytes).u32().unwrap_or(0)
    }

    /// The error of a message that cannot be decoded to its end, for a line.
    fn complaint(&self, what: &str, error: XdrError) -> String {
        if error == XdrError::Short && !self.is_whole {
            format!("{what} not captured")
        } else {
            format!("malformed {what}: {error}")
        }
    }
}

/// A part that begins with XID and `call` or `reply`.
pub(crate) fn opening(xid: u32, message_type: &'static str) -> Part {
    let mut part = Part::new("rpc");
    part.column("xid", format!("{xid:08x}"), XID_WIDTH);
    part.column("type", message_type, TYPE_WIDTH);
    part
}

/// The description of a message.
pub(crate) struct Described {
    pub(crate) parts: Vec<Part>,
    /// The time from a call to its reply, which stands at the end of the line.
    pub(crate) latency: Option<Part>,
}

impl Described {
    /// The description of a message that is not a reply to a known call.
    pub(crate) fn untimed(parts: Vec<Part>) -> Described {
        Described {
            parts,
            latency: None,
        }
    }
}

/// The identity of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallIdentity {
    xid: u32,
    pub(crate) procedure: ProcedureId,
}

/// Describes a call and remembers it among `calls`, with the memory that it offers in `lists`.
pub(crate) fn called(
    calls: &mut Calls,
    time: u64,
    message: Message<'_>,
    lists: &ChunkLists,
) -> Described {
    let (mut parts, identity) = call(message);
    if let Some(CallIdentity { xid, procedure }) = identity {
        let is_resent = calls.insert(xid, time, Some(procedure), lists);
        if let Some(part) = parts.first_mut() {
            part.flag("resent", is_resent);
        }
    }
    Described::untimed(parts)
}

/// Describes the reply to one of `calls`, which is then forgotten.
pub(crate) fn answered(calls: &mut Calls, time: u64, message: Message<'_>) -> Described {
    let call = calls.remove(message.xid());
    Described {
        parts: reply(message, call.as_ref()),
        latency: call.as_ref().map(|call| latency(call, time)),
    }
}

/// Describes a call; also gives its XID and procedure if they can be read.
pub(crate) fn call(message: Message<'_>) -> (Vec<Part>, Option<CallIdentity>) {
    let mut decoder = Decoder::new(message.bytes);
    let header = match CallHeader::parse(&mut decoder) {
        Ok(header) => header,
        Err(error) => {
            let (part, identity) = broken_call(message, &error);
            return (vec![part], identity);
        }
    };
    let procedure = ProcedureId {
        program: header.program,
        version: header.version,
        number: header.procedure,
    };
    let mut part = opening(header.xid, "call");
    part.column("procedure", name(procedure), PROCEDURE_WIDTH);
    if header.credential.flavor != AuthFlavor::RPCSEC_GSS
        && let Err(error) = arguments(procedure, decoder.remaining(), message.reading, &mut part)
    {
        part.word("error", message.complaint("arguments", error));
    }
    let identity = CallIdentity {
        xid: header.xid,
        procedure,
    };
    (vec![part, credential(&header.credential)], Some(identity))
}

/// Describes a call whose header cannot be read; also gives its XID and procedure if they can.
fn broken_call(message: Message<'_>, error: &CallHeaderError) -> (Part, Option<CallIdentity>) {
    let mut decoder = Decoder::new(message.bytes);
    let xid = decoder.u32().unwrap_or(0);
    let mut part = opening(xid, "call");
    let mut next = || decoder.u32().ok();
    let front = [next(), next(), next(), next(), next()];
    let procedure = match front {
        [
            Some(MESSAGE_CALL),
            Some(RPC_VERSION),
            Some(program),
            Some(version),
            Some(number),
        ] => Some(ProcedureId {
            program,
            version,
            number,
        }),
        _ => None,
    };
    if let Some(procedure) = procedure {
        part.column("procedure", name(procedure), PROCEDURE_WIDTH);
    }
    let text = match error {
        CallHeaderError::Malformed(error) | CallHeaderError::BadAuth { error, .. } => {
            message.complaint("call header", *error)
        }
        other => other.to_string(),
    };
    part.word("error", text);
    let identity = procedure.map(|procedure| CallIdentity { xid, procedure });
    (part, identity)
}

/// A part that begins a reply, with the name of the procedure if it is known.
pub(crate) fn reply_opening(xid: u32, call: Option<&Call>) -> Part {
    let procedure = call.and_then(|call| call.procedure);
    let shown = procedure.map_or_else(|| String::from("?"), name);
    let mut part = opening(xid, "reply");
    part.column("procedure", shown, PROCEDURE_WIDTH);
    part
}

/// Describes a reply to `call`; `None` stands for a call that the capture does not have.
fn reply(message: Message<'_>, call: Option<&Call>) -> Vec<Part> {
    let mut decoder = Decoder::new(message.bytes);
    let mut part = reply_opening(message.xid(), call);
    let procedure = call.and_then(|call| call.procedure);
    let header = match ReplyHeader::parse(&mut decoder) {
        Ok(header) => header,
        Err(error) => {
            part.word(
                "error",
                match error {
                    ReplyHeaderError::Malformed(error) => message.complaint("reply header", error),
                    other @ ReplyHeaderError::NotAReply { .. } => other.to_string(),
                },
            );
            return vec![part];
        }
    };
    let mut parts = Vec::new();
    match header.outcome {
        ReplyOutcome::Accepted {
            status: AcceptStatus::Success,
            verifier,
        } => {
            let results = decoder.remaining();
            let read = match procedure {
                Some(procedure) if verifier.flavor != AuthFlavor::RPCSEC_GSS => {
                    results_of(procedure, results, message.reading, &mut part, &mut parts)
                }
                _ => Ok(()),
            };
            if let Err(error) = read {
                part.word("error", message.complaint("results", error));
            }
        }
        ReplyOutcome::Accepted { status, .. } => {
            part.word("status", status.to_string());
        }
        ReplyOutcome::Denied(rejection) => {
            part.word("status", rejection.to_string());
        }
    }
    parts.insert(0, part);
    parts
}

/// The time from a call to its reply, to the microsecond.
pub(crate) fn latency(call: &Call, time: u64) -> Part {
    let microseconds = time.saturating_sub(call.time) / 1000;
    let mut part = Part::new("latency");
    part.word("after_ms", Value::Milliseconds(microseconds as f64 / 1e3));
    part
}

fn arguments(
    procedure: ProcedureId,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
) -> Result<(), XdrError> {
    if let Some(procedure) = nfs3_procedure(procedure) {
        return nfs::arguments(procedure, bytes, reading, part);
    }
    if let Some(procedure) = nfsacl_procedure(procedure) {
        return nfs::acl_arguments(procedure, bytes, part);
    }
    match mount_procedure(procedure) {
        Some(mount3::MountProcedure::Mnt | mount3::MountProcedure::Umnt) => {
            let path: DirPath<'_> = from_bytes(bytes)?;
            part.name("path", path.0);
        }
        Some(_) => from_bytes::<()>(bytes)?,
        None => {}
    }
    Ok(())
}

fn results_of(
    procedure: ProcedureId,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    if let Some(procedure) = nfs3_procedure(procedure) {
        return nfs::results(procedure, bytes, reading, part, parts);
    }
    if let Some(procedure) = nfsacl_procedure(procedure) {
        return nfs::acl_results(procedure, bytes, part, parts);
    }
    match mount_procedure(procedure) {
        Some(mount3::MountProcedure::Mnt) => match from_bytes::<MntResult<'_>>(bytes)? {
            Ok(it) => {
                let flavors = it.flavors.as_slice().iter();
                let flavors = flavors.map(|flavor| AuthFlavor(*flavor).to_string());
                part.word("status", "OK").pair("fh", nfs::handle(it.root));
                part.pair("flavors", flavors.collect::<Vec<_>>());
            }
            Err(failed) => {
                part.word("status", failed.status.to_string());
            }
        },
        Some(mount3::MountProcedure::Export) => {
            let exports: ExportResult<'_> = from_bytes(bytes)?;
            part.names("paths", exports.iter().map(|export| export.path.0));
        }
        Some(mount3::MountProcedure::Dump) => {
            let mounts: DumpResult<'_> = from_bytes(bytes)?;
            part.pair("mounts", mounts.iter().count());
        }
        Some(_) => from_bytes::<()>(bytes)?,
        None => {}
    }
    Ok(())
}

fn nfs3_procedure(id: ProcedureId) -> Option<nfs3::NfsProcedure> {
    let is_nfs3 = id.program == nfs3::PROGRAM && id.version == nfs3::VERSION;
    is_nfs3
        .then(|| nfs3::NfsProcedure::from_number(id.number))
        .flatten()
}

fn nfsacl_procedure(id: ProcedureId) -> Option<nfsacl3::AclProcedure> {
    let is_nfsacl3 = id.program == nfsacl3::PROGRAM && id.version == nfsacl3::VERSION;
    is_nfsacl3
        .then(|| nfsacl3::AclProcedure::from_number(id.number))
        .flatten()
}

fn mount_procedure(id: ProcedureId) -> Option<mount3::MountProcedure> {
    let is_mount3 = id.program == mount3::PROGRAM && id.version == mount3::VERSION;
    is_mount3
        .then(|| mount3::MountProcedure::from_number(id.number))
        .flatten()
}

/// NFSv3's procedures by name; others behind the name of their program.
fn name(id: ProcedureId) -> String {
    const PORTMAP: &[&str] = &["NULL", "SET", "UNSET", "GETPORT", "DUMP"];
    let ProcedureId {
        program,
        version,
        number,
    } = id;
    if let Some(procedure) = nfs3_procedure(id) {
        return procedure.to_string();
    }
    let (program_name, known) = match program {
        nfs3::PROGRAM if version >= 4 => (
            format!("nfs{version}"),
            ["NULL", "COMPOUND"].get(number as usize),
        ),
        nfs3::PROGRAM => (format!("nfs{version}"), None),
        mount3::PROGRAM => {
            let procedure = mount3::MountProcedure::from_number(number);
            let known = procedure.map(|procedure| procedure.to_string());
            return format!("mount:{}", known.unwrap_or_else(|| number.to_string()));
        }
        nfsacl3::PROGRAM => {
            let procedure = nfsacl3::AclProcedure::from_number(number);
            let known = procedure.map(|procedure| procedure.to_string());
            return format!("nfsacl:{}", known.unwrap_or_else(|| number.to_string()));
        }
        PORTMAP_PROGRAM if version == 2 => (String::from("portmap"), PORTMAP.get(number as usize)),
        PORTMAP_PROGRAM => (format!("rpcbind{version}"), None),
        NLM_PROGRAM => (format!("nlm{version}"), None),
        NSM_PROGRAM => (String::from("nsm"), None),
        other => (format!("{other}v{version}"), None),
    };
    match known {
        Some(known) => format!("{program_name}:{known}"),
        None => format!("{program_name}:{number}"),
    }
}

fn credential(credential: &OpaqueAuth<'_>) -> Part {
    let mut part = Part::new("credential");
    if credential.flavor != AuthFlavor::SYS {
        part.pair("auth", credential.flavor.to_string());
        return part;
    }
    match AuthSys::parse(credential.body) {
        Ok(sys) => {
            part.pair("uid", sys.uid).pair("gid", sys.gid);
            let groups = sys.groups.as_slice().iter();
            let groups: Vec<String> = groups.map(u32::to_string).collect();
            if !groups.is_empty() && groups != [sys.gid.to_string()] {
                part.pair("groups", groups);
            }
            part.name("host", sys.machine_name);
        }
        Err(error) => {
            part.pair("auth", "sys");
            part.word("error", format!("malformed credential: {error}"));
        }
    }
    part
}
