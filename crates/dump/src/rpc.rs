//! RPC calls and replies, down to the procedure's own words.

use crate::calls::{Call, Calls, ProcedureId};
use crate::line::{Part, Value};
use crate::nfs::{self, Reading};
use gannet_wire::mount3::{self, DirPath, DumpResult, ExportResult, MntResult};
use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthStat, AuthSys, CallHeader, CallHeaderError, MESSAGE_CALL,
    MESSAGE_REPLY, OpaqueAuth, RPC_VERSION, Rejection, ReplyHeader, ReplyHeaderError, ReplyOutcome,
};
use gannet_wire::rpcrdma::ChunkLists;
use gannet_wire::xdr::{Decoder, XdrError, from_bytes};
use gannet_wire::{nfs3, nfsacl3};

const PORTMAP_PROGRAM: u32 = 100_000;
const NLM_PROGRAM: u32 = 100_021;
const NSM_PROGRAM: u32 = 100_024;
/// Columns of an XID, of `reply`, of the longest procedure of NFSv3.
const COLUMNS: (usize, usize, usize) = (8, 5, 11);

/// An RPC message as it was put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// Its bytes, without the opaque that travels in a chunk.
    pub(crate) bytes: &'a [u8],
    /// False when its end is missing.
    pub(crate) is_whole: bool,
    /// How to read it.
    pub(crate) reading: Reading,
}

impl Message<'_> {
    /// Whether this is a call or a reply; `None` if it is neither, or too short to tell.
    pub(crate) fn is_call(&self) -> Option<bool> {
        let kind = self.bytes.get(4..)?.first_chunk::<4>()?;
        match u32::from_be_bytes(*kind) {
            MESSAGE_CALL => Some(true),
            MESSAGE_REPLY => Some(false),
            _ => None,
        }
    }

    /// What is wrong with a message that cannot be decoded to its end.
    fn complaint(&self, what: &str, error: XdrError) -> String {
        if error == XdrError::Short && !self.is_whole {
            format!("{what} not captured")
        } else {
            format!("malformed {what}: {error}")
        }
    }
}

/// A part that begins with what every RPC message has.
pub(crate) fn opening(xid: u32, is_call: bool) -> Part {
    let mut part = Part::new("rpc");
    part.column("xid", format!("{xid:08x}"), COLUMNS.0);
    part.column("type", if is_call { "call" } else { "reply" }, COLUMNS.1);
    part
}

/// What a message says, and how long after its call it came.
pub(crate) type Described = (Vec<Part>, Option<Part>);

/// Describes a call and remembers it among `calls`, with the memory that it offers in `lists`.
pub(crate) fn called(
    calls: &mut Calls,
    time: u64,
    message: Message<'_>,
    lists: &ChunkLists,
) -> Described {
    let (mut parts, known) = call(message);
    if let Some((xid, procedure)) = known {
        let is_resent = calls.insert(xid, time, Some(procedure), lists);
        if let Some(part) = parts.first_mut() {
            part.flag("resent", is_resent);
        }
    }
    (parts, None)
}

/// Describes the reply to one of `calls`, which is then forgotten.
pub(crate) fn answered(calls: &mut Calls, time: u64, message: Message<'_>) -> Described {
    let xid = Decoder::new(message.bytes).u32().unwrap_or(0);
    let call = calls.remove(xid);
    let latency = call.as_ref().map(|call| latency(call, time));
    (reply(message, call.as_ref()), latency)
}

/// Describes a call; also gives its XID and procedure if they can be read.
pub(crate) fn call(message: Message<'_>) -> (Vec<Part>, Option<(u32, ProcedureId)>) {
    let mut decoder = Decoder::new(message.bytes);
    let header = match CallHeader::parse(&mut decoder) {
        Ok(header) => header,
        Err(error) => {
            let (part, known) = broken_call(message, &error);
            return (vec![part], known);
        }
    };
    let procedure = ProcedureId {
        program: header.program,
        version: header.version,
        number: header.procedure,
    };
    let mut part = opening(header.xid, true);
    part.column("procedure", name(procedure), COLUMNS.2);
    if header.credential.flavor != AuthFlavor::RPCSEC_GSS
        && let Err(error) = arguments(procedure, decoder.remaining(), message.reading, &mut part)
    {
        part.word("error", message.complaint("arguments", error));
    }
    (
        vec![part, credential(&header.credential)],
        Some((header.xid, procedure)),
    )
}

/// As much as there is of a call whose header cannot be read.
fn broken_call(
    message: Message<'_>,
    error: &CallHeaderError,
) -> (Part, Option<(u32, ProcedureId)>) {
    let mut decoder = Decoder::new(message.bytes);
    let xid = decoder.u32().unwrap_or(0);
    let mut part = opening(xid, true);
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
        part.column("procedure", name(procedure), COLUMNS.2);
    }
    let text = match error {
        CallHeaderError::Malformed(error) | CallHeaderError::BadAuth { error, .. } => {
            message.complaint("call header", *error)
        }
        other => other.to_string(),
    };
    part.word("error", text);
    (part, procedure.map(|procedure| (xid, procedure)))
}

/// A part that begins a reply, with the name of the procedure if it is known.
pub(crate) fn reply_opening(xid: u32, call: Option<&Call>) -> Part {
    let procedure = call.and_then(|call| call.procedure);
    let shown = procedure.map_or_else(|| String::from("?"), name);
    let mut part = opening(xid, false);
    part.column("procedure", shown, COLUMNS.2);
    part
}

/// Describes a reply to `call`, of which nothing may be known.
fn reply(message: Message<'_>, call: Option<&Call>) -> Vec<Part> {
    let mut decoder = Decoder::new(message.bytes);
    let xid = Decoder::new(message.bytes).u32().unwrap_or(0);
    let mut part = reply_opening(xid, call);
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
            part.word("status", accept_status(status));
        }
        ReplyOutcome::Denied(rejection) => {
            part.word("status", rejected(rejection));
        }
    }
    parts.insert(0, part);
    parts
}

/// How long after its call a reply came.
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
                let flavors = flavors.map(|flavor| flavor_name(AuthFlavor(*flavor)));
                part.word("status", "OK").pair("fh", nfs::handle(it.root));
                part.pair("flavors", flavors.collect::<Vec<_>>());
            }
            Err(failed) => {
                part.word("status", format!("{:?}", failed.status));
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
        return format!("{procedure:?}").to_uppercase();
    }
    let (program_name, known) = match program {
        nfs3::PROGRAM if version >= 4 => (
            format!("nfs{version}"),
            ["NULL", "COMPOUND"].get(number as usize),
        ),
        nfs3::PROGRAM => (format!("nfs{version}"), None),
        mount3::PROGRAM => {
            let procedure = mount3::MountProcedure::from_number(number);
            let known = procedure.map(|procedure| format!("{procedure:?}").to_uppercase());
            return format!("mount:{}", known.unwrap_or_else(|| number.to_string()));
        }
        nfsacl3::PROGRAM => {
            let procedure = nfsacl3::AclProcedure::from_number(number);
            let known = procedure.map(|procedure| format!("{procedure:?}").to_uppercase());
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
        part.pair("auth", flavor_name(credential.flavor));
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

fn flavor_name(flavor: AuthFlavor) -> String {
    match flavor {
        AuthFlavor::NONE => String::from("none"),
        AuthFlavor::SYS => String::from("sys"),
        AuthFlavor::RPCSEC_GSS => String::from("gss"),
        AuthFlavor::TLS => String::from("tls"),
        AuthFlavor(other) => other.to_string(),
    }
}

/// The names of RFC 5531.
fn accept_status(status: AcceptStatus) -> String {
    match status {
        AcceptStatus::Success => String::from("SUCCESS"),
        AcceptStatus::ProgUnavail => String::from("PROG_UNAVAIL"),
        AcceptStatus::ProgMismatch { low, high } => format!("PROG_MISMATCH({low}..{high})"),
        AcceptStatus::ProcUnavail => String::from("PROC_UNAVAIL"),
        AcceptStatus::GarbageArgs => String::from("GARBAGE_ARGS"),
        AcceptStatus::SystemErr => String::from("SYSTEM_ERR"),
    }
}

fn rejected(rejection: Rejection) -> String {
    let AuthStat(code) = match rejection {
        Rejection::RpcMismatch { low, high } => return format!("RPC_MISMATCH({low}..{high})"),
        Rejection::AuthError(status) => status,
    };
    const NAMES: [&str; 8] = [
        "OK",
        "BADCRED",
        "REJECTEDCRED",
        "BADVERF",
        "REJECTEDVERF",
        "TOOWEAK",
        "INVALIDRESP",
        "FAILED",
    ];
    match NAMES.get(code as usize) {
        Some(name) => format!("AUTH_ERROR({name})"),
        None => format!("AUTH_ERROR({code})"),
    }
}
