//! The POSIX numbers that travel in responses: by name, and as text for people.
//!
//! Numbers are Linux's (RFC 6 uses them as they are). Which one answers what is each service's own choice.

/// Operation not permitted.
pub const EPERM: u32 = 1;
/// No such file or directory.
pub const ENOENT: u32 = 2;
/// No such process.
pub const ESRCH: u32 = 3;
/// Interrupted system call.
pub const EINTR: u32 = 4;
/// Input/output error.
pub const EIO: u32 = 5;
/// No such device or address.
pub const ENXIO: u32 = 6;
/// Argument list too long.
pub const E2BIG: u32 = 7;
/// Exec format error.
pub const ENOEXEC: u32 = 8;
/// Bad file descriptor.
pub const EBADF: u32 = 9;
/// No child processes.
pub const ECHILD: u32 = 10;
/// Resource temporarily unavailable.
pub const EAGAIN: u32 = 11;
/// Cannot allocate memory.
pub const ENOMEM: u32 = 12;
/// Permission denied.
pub const EACCES: u32 = 13;
/// Bad address.
pub const EFAULT: u32 = 14;
/// Block device required.
pub const ENOTBLK: u32 = 15;
/// Device or resource busy.
pub const EBUSY: u32 = 16;
/// File exists.
pub const EEXIST: u32 = 17;
/// Invalid cross-device link.
pub const EXDEV: u32 = 18;
/// No such device.
pub const ENODEV: u32 = 19;
/// Not a directory.
pub const ENOTDIR: u32 = 20;
/// Is a directory.
pub const EISDIR: u32 = 21;
/// Invalid argument.
pub const EINVAL: u32 = 22;
/// Too many open files in system.
pub const ENFILE: u32 = 23;
/// Too many open files.
pub const EMFILE: u32 = 24;
/// Inappropriate ioctl for device.
pub const ENOTTY: u32 = 25;
/// Text file busy.
pub const ETXTBSY: u32 = 26;
/// File too large.
pub const EFBIG: u32 = 27;
/// No space left on device.
pub const ENOSPC: u32 = 28;
/// Illegal seek.
pub const ESPIPE: u32 = 29;
/// Read-only file system.
pub const EROFS: u32 = 30;
/// Too many links.
pub const EMLINK: u32 = 31;
/// Broken pipe.
pub const EPIPE: u32 = 32;
/// Numerical argument out of domain.
pub const EDOM: u32 = 33;
/// Numerical result out of range.
pub const ERANGE: u32 = 34;
/// Resource deadlock avoided.
pub const EDEADLK: u32 = 35;
/// File name too long.
pub const ENAMETOOLONG: u32 = 36;
/// No locks available.
pub const ENOLCK: u32 = 37;
/// Function not implemented.
pub const ENOSYS: u32 = 38;
/// Directory not empty.
pub const ENOTEMPTY: u32 = 39;
/// Too many levels of symbolic links.
pub const ELOOP: u32 = 40;
/// No message of desired type.
pub const ENOMSG: u32 = 42;
/// Identifier removed.
pub const EIDRM: u32 = 43;
/// Channel number out of range.
pub const ECHRNG: u32 = 44;
/// Level 2 not synchronized.
pub const EL2NSYNC: u32 = 45;
/// Level 3 halted.
pub const EL3HLT: u32 = 46;
/// Level 3 reset.
pub const EL3RST: u32 = 47;
/// Link number out of range.
pub const ELNRNG: u32 = 48;
/// Protocol driver not attached.
pub const EUNATCH: u32 = 49;
/// No CSI structure available.
pub const ENOCSI: u32 = 50;
/// Level 2 halted.
pub const EL2HLT: u32 = 51;
/// Invalid exchange.
pub const EBADE: u32 = 52;
/// Invalid request descriptor.
pub const EBADR: u32 = 53;
/// Exchange full.
pub const EXFULL: u32 = 54;
/// No anode.
pub const ENOANO: u32 = 55;
/// Invalid request code.
pub const EBADRQC: u32 = 56;
/// Invalid slot.
pub const EBADSLT: u32 = 57;
/// Bad font file format.
pub const EBFONT: u32 = 59;
/// Device not a stream.
pub const ENOSTR: u32 = 60;
/// No data available.
pub const ENODATA: u32 = 61;
/// Timer expired.
pub const ETIME: u32 = 62;
/// Out of streams resources.
pub const ENOSR: u32 = 63;
/// Machine is not on the network.
pub const ENONET: u32 = 64;
/// Package not installed.
pub const ENOPKG: u32 = 65;
/// Object is remote.
pub const EREMOTE: u32 = 66;
/// Link has been severed.
pub const ENOLINK: u32 = 67;
/// Advertise error.
pub const EADV: u32 = 68;
/// Srmount error.
pub const ESRMNT: u32 = 69;
/// Communication error on send.
pub const ECOMM: u32 = 70;
/// Protocol error.
pub const EPROTO: u32 = 71;
/// Multihop attempted.
pub const EMULTIHOP: u32 = 72;
/// RFS specific error.
pub const EDOTDOT: u32 = 73;
/// Bad message.
pub const EBADMSG: u32 = 74;
/// Value too large for defined data type.
pub const EOVERFLOW: u32 = 75;
/// Name not unique on network.
pub const ENOTUNIQ: u32 = 76;
/// File descriptor in bad state.
pub const EBADFD: u32 = 77;
/// Remote address changed.
pub const EREMCHG: u32 = 78;
/// Can not access a needed shared library.
pub const ELIBACC: u32 = 79;
/// Accessing a corrupted shared library.
pub const ELIBBAD: u32 = 80;
/// .lib section in a.out corrupted.
pub const ELIBSCN: u32 = 81;
/// Attempting to link in too many shared libraries.
pub const ELIBMAX: u32 = 82;
/// Cannot exec a shared library directly.
pub const ELIBEXEC: u32 = 83;
/// Invalid or incomplete multibyte or wide character.
pub const EILSEQ: u32 = 84;
/// Interrupted system call should be restarted.
pub const ERESTART: u32 = 85;
/// Streams pipe error.
pub const ESTRPIPE: u32 = 86;
/// Too many users.
pub const EUSERS: u32 = 87;
/// Socket operation on non-socket.
pub const ENOTSOCK: u32 = 88;
/// Destination address required.
pub const EDESTADDRREQ: u32 = 89;
/// Message too long.
pub const EMSGSIZE: u32 = 90;
/// Protocol wrong type for socket.
pub const EPROTOTYPE: u32 = 91;
/// Protocol not available.
pub const ENOPROTOOPT: u32 = 92;
/// Protocol not supported.
pub const EPROTONOSUPPORT: u32 = 93;
/// Socket type not supported.
pub const ESOCKTNOSUPPORT: u32 = 94;
/// Operation not supported.
pub const ENOTSUP: u32 = 95;
/// Protocol family not supported.
pub const EPFNOSUPPORT: u32 = 96;
/// Address family not supported by protocol.
pub const EAFNOSUPPORT: u32 = 97;
/// Address already in use.
pub const EADDRINUSE: u32 = 98;
/// Cannot assign requested address.
pub const EADDRNOTAVAIL: u32 = 99;
/// Network is down.
pub const ENETDOWN: u32 = 100;
/// Network is unreachable.
pub const ENETUNREACH: u32 = 101;
/// Network dropped connection on reset.
pub const ENETRESET: u32 = 102;
/// Software caused connection abort.
pub const ECONNABORTED: u32 = 103;
/// Connection reset by peer.
pub const ECONNRESET: u32 = 104;
/// No buffer space available.
pub const ENOBUFS: u32 = 105;
/// Transport endpoint is already connected.
pub const EISCONN: u32 = 106;
/// Transport endpoint is not connected.
pub const ENOTCONN: u32 = 107;
/// Cannot send after transport endpoint shutdown.
pub const ESHUTDOWN: u32 = 108;
/// Too many references: cannot splice.
pub const ETOOMANYREFS: u32 = 109;
/// Connection timed out.
pub const ETIMEDOUT: u32 = 110;
/// Connection refused.
pub const ECONNREFUSED: u32 = 111;
/// Host is down.
pub const EHOSTDOWN: u32 = 112;
/// No route to host.
pub const EHOSTUNREACH: u32 = 113;
/// Operation already in progress.
pub const EALREADY: u32 = 114;
/// Operation now in progress.
pub const EINPROGRESS: u32 = 115;
/// Stale file handle.
pub const ESTALE: u32 = 116;
/// Structure needs cleaning.
pub const EUCLEAN: u32 = 117;
/// Not a XENIX named type file.
pub const ENOTNAM: u32 = 118;
/// No XENIX semaphores available.
pub const ENAVAIL: u32 = 119;
/// Is a named type file.
pub const EISNAM: u32 = 120;
/// Remote I/O error.
pub const EREMOTEIO: u32 = 121;
/// Disk quota exceeded.
pub const EDQUOT: u32 = 122;
/// No medium found.
pub const ENOMEDIUM: u32 = 123;
/// Wrong medium type.
pub const EMEDIUMTYPE: u32 = 124;
/// Operation canceled.
pub const ECANCELED: u32 = 125;
/// Required key not available.
pub const ENOKEY: u32 = 126;
/// Key has expired.
pub const EKEYEXPIRED: u32 = 127;
/// Key has been revoked.
pub const EKEYREVOKED: u32 = 128;
/// Key was rejected by service.
pub const EKEYREJECTED: u32 = 129;
/// Owner died.
pub const EOWNERDEAD: u32 = 130;
/// State not recoverable.
pub const ENOTRECOVERABLE: u32 = 131;
/// Operation not possible due to RF-kill.
pub const ERFKILL: u32 = 132;

/// What the number means, as `strerror` says it; `Unknown error` for one that has no meaning.
#[must_use]
pub fn text(errnum: u32) -> &'static str {
    match errnum {
        0 => "Success",
        EPERM => "Operation not permitted",
        ENOENT => "No such file or directory",
        ESRCH => "No such process",
        EINTR => "Interrupted system call",
        EIO => "Input/output error",
        ENXIO => "No such device or address",
        E2BIG => "Argument list too long",
        ENOEXEC => "Exec format error",
        EBADF => "Bad file descriptor",
        ECHILD => "No child processes",
        EAGAIN => "Resource temporarily unavailable",
        ENOMEM => "Cannot allocate memory",
        EACCES => "Permission denied",
        EFAULT => "Bad address",
        ENOTBLK => "Block device required",
        EBUSY => "Device or resource busy",
        EEXIST => "File exists",
        EXDEV => "Invalid cross-device link",
        ENODEV => "No such device",
        ENOTDIR => "Not a directory",
        EISDIR => "Is a directory",
        EINVAL => "Invalid argument",
        ENFILE => "Too many open files in system",
        EMFILE => "Too many open files",
        ENOTTY => "Inappropriate ioctl for device",
        ETXTBSY => "Text file busy",
        EFBIG => "File too large",
        ENOSPC => "No space left on device",
        ESPIPE => "Illegal seek",
        EROFS => "Read-only file system",
        EMLINK => "Too many links",
        EPIPE => "Broken pipe",
        EDOM => "Numerical argument out of domain",
        ERANGE => "Numerical result out of range",
        EDEADLK => "Resource deadlock avoided",
        ENAMETOOLONG => "File name too long",
        ENOLCK => "No locks available",
        ENOSYS => "Function not implemented",
        ENOTEMPTY => "Directory not empty",
        ELOOP => "Too many levels of symbolic links",
        ENOMSG => "No message of desired type",
        EIDRM => "Identifier removed",
        ECHRNG => "Channel number out of range",
        EL2NSYNC => "Level 2 not synchronized",
        EL3HLT => "Level 3 halted",
        EL3RST => "Level 3 reset",
        ELNRNG => "Link number out of range",
        EUNATCH => "Protocol driver not attached",
        ENOCSI => "No CSI structure available",
        EL2HLT => "Level 2 halted",
        EBADE => "Invalid exchange",
        EBADR => "Invalid request descriptor",
        EXFULL => "Exchange full",
        ENOANO => "No anode",
        EBADRQC => "Invalid request code",
        EBADSLT => "Invalid slot",
        EBFONT => "Bad font file format",
        ENOSTR => "Device not a stream",
        ENODATA => "No data available",
        ETIME => "Timer expired",
        ENOSR => "Out of streams resources",
        ENONET => "Machine is not on the network",
        ENOPKG => "Package not installed",
        EREMOTE => "Object is remote",
        ENOLINK => "Link has been severed",
        EADV => "Advertise error",
        ESRMNT => "Srmount error",
        ECOMM => "Communication error on send",
        EPROTO => "Protocol error",
        EMULTIHOP => "Multihop attempted",
        EDOTDOT => "RFS specific error",
        EBADMSG => "Bad message",
        EOVERFLOW => "Value too large for defined data type",
        ENOTUNIQ => "Name not unique on network",
        EBADFD => "File descriptor in bad state",
        EREMCHG => "Remote address changed",
        ELIBACC => "Can not access a needed shared library",
        ELIBBAD => "Accessing a corrupted shared library",
        ELIBSCN => ".lib section in a.out corrupted",
        ELIBMAX => "Attempting to link in too many shared libraries",
        ELIBEXEC => "Cannot exec a shared library directly",
        EILSEQ => "Invalid or incomplete multibyte or wide character",
        ERESTART => "Interrupted system call should be restarted",
        ESTRPIPE => "Streams pipe error",
        EUSERS => "Too many users",
        ENOTSOCK => "Socket operation on non-socket",
        EDESTADDRREQ => "Destination address required",
        EMSGSIZE => "Message too long",
        EPROTOTYPE => "Protocol wrong type for socket",
        ENOPROTOOPT => "Protocol not available",
        EPROTONOSUPPORT => "Protocol not supported",
        ESOCKTNOSUPPORT => "Socket type not supported",
        ENOTSUP => "Operation not supported",
        EPFNOSUPPORT => "Protocol family not supported",
        EAFNOSUPPORT => "Address family not supported by protocol",
        EADDRINUSE => "Address already in use",
        EADDRNOTAVAIL => "Cannot assign requested address",
        ENETDOWN => "Network is down",
        ENETUNREACH => "Network is unreachable",
        ENETRESET => "Network dropped connection on reset",
        ECONNABORTED => "Software caused connection abort",
        ECONNRESET => "Connection reset by peer",
        ENOBUFS => "No buffer space available",
        EISCONN => "Transport endpoint is already connected",
        ENOTCONN => "Transport endpoint is not connected",
        ESHUTDOWN => "Cannot send after transport endpoint shutdown",
        ETOOMANYREFS => "Too many references: cannot splice",
        ETIMEDOUT => "Connection timed out",
        ECONNREFUSED => "Connection refused",
        EHOSTDOWN => "Host is down",
        EHOSTUNREACH => "No route to host",
        EALREADY => "Operation already in progress",
        EINPROGRESS => "Operation now in progress",
        ESTALE => "Stale file handle",
        EUCLEAN => "Structure needs cleaning",
        ENOTNAM => "Not a XENIX named type file",
        ENAVAIL => "No XENIX semaphores available",
        EISNAM => "Is a named type file",
        EREMOTEIO => "Remote I/O error",
        EDQUOT => "Disk quota exceeded",
        ENOMEDIUM => "No medium found",
        EMEDIUMTYPE => "Wrong medium type",
        ECANCELED => "Operation canceled",
        ENOKEY => "Required key not available",
        EKEYEXPIRED => "Key has expired",
        EKEYREVOKED => "Key has been revoked",
        EKEYREJECTED => "Key was rejected by service",
        EOWNERDEAD => "Owner died",
        ENOTRECOVERABLE => "State not recoverable",
        ERFKILL => "Operation not possible due to RF-kill",
        _ => "Unknown error",
    }
}

/// The number's name, `EPERM`; `?` for one that has none.
#[must_use]
pub fn name(errnum: u32) -> &'static str {
    match errnum {
        0 => "0",
        EPERM => "EPERM",
        ENOENT => "ENOENT",
        ESRCH => "ESRCH",
        EINTR => "EINTR",
        EIO => "EIO",
        ENXIO => "ENXIO",
        E2BIG => "E2BIG",
        ENOEXEC => "ENOEXEC",
        EBADF => "EBADF",
        ECHILD => "ECHILD",
        EAGAIN => "EAGAIN",
        ENOMEM => "ENOMEM",
        EACCES => "EACCES",
        EFAULT => "EFAULT",
        ENOTBLK => "ENOTBLK",
        EBUSY => "EBUSY",
        EEXIST => "EEXIST",
        EXDEV => "EXDEV",
        ENODEV => "ENODEV",
        ENOTDIR => "ENOTDIR",
        EISDIR => "EISDIR",
        EINVAL => "EINVAL",
        ENFILE => "ENFILE",
        EMFILE => "EMFILE",
        ENOTTY => "ENOTTY",
        ETXTBSY => "ETXTBSY",
        EFBIG => "EFBIG",
        ENOSPC => "ENOSPC",
        ESPIPE => "ESPIPE",
        EROFS => "EROFS",
        EMLINK => "EMLINK",
        EPIPE => "EPIPE",
        EDOM => "EDOM",
        ERANGE => "ERANGE",
        EDEADLK => "EDEADLK",
        ENAMETOOLONG => "ENAMETOOLONG",
        ENOLCK => "ENOLCK",
        ENOSYS => "ENOSYS",
        ENOTEMPTY => "ENOTEMPTY",
        ELOOP => "ELOOP",
        ENOMSG => "ENOMSG",
        EIDRM => "EIDRM",
        ECHRNG => "ECHRNG",
        EL2NSYNC => "EL2NSYNC",
        EL3HLT => "EL3HLT",
        EL3RST => "EL3RST",
        ELNRNG => "ELNRNG",
        EUNATCH => "EUNATCH",
        ENOCSI => "ENOCSI",
        EL2HLT => "EL2HLT",
        EBADE => "EBADE",
        EBADR => "EBADR",
        EXFULL => "EXFULL",
        ENOANO => "ENOANO",
        EBADRQC => "EBADRQC",
        EBADSLT => "EBADSLT",
        EBFONT => "EBFONT",
        ENOSTR => "ENOSTR",
        ENODATA => "ENODATA",
        ETIME => "ETIME",
        ENOSR => "ENOSR",
        ENONET => "ENONET",
        ENOPKG => "ENOPKG",
        EREMOTE => "EREMOTE",
        ENOLINK => "ENOLINK",
        EADV => "EADV",
        ESRMNT => "ESRMNT",
        ECOMM => "ECOMM",
        EPROTO => "EPROTO",
        EMULTIHOP => "EMULTIHOP",
        EDOTDOT => "EDOTDOT",
        EBADMSG => "EBADMSG",
        EOVERFLOW => "EOVERFLOW",
        ENOTUNIQ => "ENOTUNIQ",
        EBADFD => "EBADFD",
        EREMCHG => "EREMCHG",
        ELIBACC => "ELIBACC",
        ELIBBAD => "ELIBBAD",
        ELIBSCN => "ELIBSCN",
        ELIBMAX => "ELIBMAX",
        ELIBEXEC => "ELIBEXEC",
        EILSEQ => "EILSEQ",
        ERESTART => "ERESTART",
        ESTRPIPE => "ESTRPIPE",
        EUSERS => "EUSERS",
        ENOTSOCK => "ENOTSOCK",
        EDESTADDRREQ => "EDESTADDRREQ",
        EMSGSIZE => "EMSGSIZE",
        EPROTOTYPE => "EPROTOTYPE",
        ENOPROTOOPT => "ENOPROTOOPT",
        EPROTONOSUPPORT => "EPROTONOSUPPORT",
        ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        ENOTSUP => "ENOTSUP",
        EPFNOSUPPORT => "EPFNOSUPPORT",
        EAFNOSUPPORT => "EAFNOSUPPORT",
        EADDRINUSE => "EADDRINUSE",
        EADDRNOTAVAIL => "EADDRNOTAVAIL",
        ENETDOWN => "ENETDOWN",
        ENETUNREACH => "ENETUNREACH",
        ENETRESET => "ENETRESET",
        ECONNABORTED => "ECONNABORTED",
        ECONNRESET => "ECONNRESET",
        ENOBUFS => "ENOBUFS",
        EISCONN => "EISCONN",
        ENOTCONN => "ENOTCONN",
        ESHUTDOWN => "ESHUTDOWN",
        ETOOMANYREFS => "ETOOMANYREFS",
        ETIMEDOUT => "ETIMEDOUT",
        ECONNREFUSED => "ECONNREFUSED",
        EHOSTDOWN => "EHOSTDOWN",
        EHOSTUNREACH => "EHOSTUNREACH",
        EALREADY => "EALREADY",
        EINPROGRESS => "EINPROGRESS",
        ESTALE => "ESTALE",
        EUCLEAN => "EUCLEAN",
        ENOTNAM => "ENOTNAM",
        ENAVAIL => "ENAVAIL",
        EISNAM => "EISNAM",
        EREMOTEIO => "EREMOTEIO",
        EDQUOT => "EDQUOT",
        ENOMEDIUM => "ENOMEDIUM",
        EMEDIUMTYPE => "EMEDIUMTYPE",
        ECANCELED => "ECANCELED",
        ENOKEY => "ENOKEY",
        EKEYEXPIRED => "EKEYEXPIRED",
        EKEYREVOKED => "EKEYREVOKED",
        EKEYREJECTED => "EKEYREJECTED",
        EOWNERDEAD => "EOWNERDEAD",
        ENOTRECOVERABLE => "ENOTRECOVERABLE",
        ERFKILL => "ERFKILL",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_flux_uses() {
        for (number, known) in [
            (EPERM, 1),
            (ENOENT, 2),
            (ECHILD, 10),
            (EAGAIN, 11),
            (EEXIST, 17),
            (EISDIR, 21),
            (EINVAL, 22),
            (ENOSYS, 38),
            (ENODATA, 61),
            (EPROTO, 71),
            (EOVERFLOW, 75),
            (ENOTSUP, 95),
            (ECONNRESET, 104),
            (EHOSTUNREACH, 113),
            (ESTALE, 116),
            (ECANCELED, 125),
        ] {
            assert_eq!(number, known);
        }
        assert_eq!(
            (name(ENOSYS), text(ENOSYS)),
            ("ENOSYS", "Function not implemented")
        );
        assert_eq!((name(9999), text(9999)), ("?", "Unknown error"));
    }
}
