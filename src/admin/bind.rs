//! TCP and Unix sockets for the health and the control listener.

use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};

use crate::config::Address;

/// A socket that listens, and is not served yet.
#[derive(Debug)]
pub struct Bound {
    pub(super) listener: Listener,
    address: Address,
}

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// Removes the socket's file at the end.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

/// Why a health or control listener cannot be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which address.
        address: Address,
        /// What the system says.
        source: io::Error,
    },
    /// Another process serves the socket.
    #[error("cannot listen on unix:{0}: another process answers there; end it, or use another path")]
    SocketInUse(PathBuf),
    /// Something that is no socket has the path.
    #[error("cannot listen on unix:{0}: there is a file that is no socket; remove it, or use another path")]
    NoSocket(PathBuf),
    /// A control listener that others can reach.
    #[error("admin.address: {0} is no loopback address; use 127.0.0.1, ::1 or unix:PATH")]
    NotLoopback(Address),
    /// A control listener that everybody on the machine could use.
    #[error(
        "admin.token_file: a control listener on {0} needs one, also on loopback, which the containers of a pod share"
    )]
    NoToken(Address),
    /// The control token cannot be used.
    #[error("admin.token_file: {0}")]
    Token(String),
}

impl Bound {
    /// Where it listens: with the real port where port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Listens. A Unix socket has mode 0600 from the moment that its path is there, and takes the place of a stale one.
pub(super) async fn bind(address: &Address) -> Result<Bound, Error> {
    match address {
        Address::Tcp(wanted) => {
            let failed = |source| Error::Bind { address: address.clone(), source };
            let listener = TcpListener::bind(wanted).await.map_err(failed)?;
            let address = Address::Tcp(listener.local_addr().map_err(failed)?);
            Ok(Bound { listener: Listener::Tcp(listener), address })
        }
        Address::Unix(path) => {
            check_place(path)?;
            let listener = bind_private(path).map_err(|source| Error::Bind { address: address.clone(), source })?;
            let listener = Listener::Unix { listener, _file: SocketFile(path.clone()) };
            Ok(Bound { listener, address: address.clone() })
        }
    }
}

fn check_place(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(Error::NoSocket(path.to_owned()));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(Error::SocketInUse(path.to_owned())),
        Err(_) => Ok(()),
    }
}

/// Binds inside a new folder that only we may enter, sets the mode there, and moves the socket to its place: bound in
/// place, others could connect before the mode is set.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let folder = parent.join(format!(".{}", uuid::Uuid::now_v7().simple()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let inside = folder.join("s");
    let listener = UnixListener::bind(&inside).and_then(|listener| {
        std::fs::set_permissions(&inside, Permissions::from_mode(0o600))?;
        std::fs::rename(&inside, path)?;
        Ok(listener)
    });
    if listener.is_err() {
        std::fs::remove_file(&inside).ok();
    }
    std::fs::remove_dir(&folder)?;
    listener
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Without it, the next start finds a stale socket and replaces it.
        std::fs::remove_file(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn port_0_gives_the_real_port_back() {
        let bound = bind(&"127.0.0.1:0".parse().expect("an address")).await.expect("bound");
        let Address::Tcp(address) = bound.address() else { panic!("a TCP address") };
        assert_ne!(address.port(), 0);
        let error = bind(bound.address()).await.expect_err("taken");
        assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")), "{error}");
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_alone_replaces_a_stale_one_and_goes_with_the_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "the stale socket of a process that was killed");
        let bound = bind(&Address::Unix(path.clone())).await.expect("bound");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        std::os::unix::net::UnixStream::connect(&path).expect("served");
        let names: Vec<_> =
            fs::read_dir(folder.path()).expect("read").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["control.sock"], "nothing else is left behind");
        assert!(matches!(bind(&Address::Unix(path.clone())).await, Err(Error::SocketInUse(_))));
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("precious");
        fs::write(&path, "data").expect("written");
        assert!(matches!(bind(&Address::Unix(path.clone())).await, Err(Error::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).expect("read"), "data");
        let missing = Address::Unix(folder.path().join("missing/control.sock"));
        assert!(matches!(bind(&missing).await, Err(Error::Bind { .. })));
    }
}
