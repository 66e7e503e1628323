//! Listening sockets, TCP and Unix, and the streams that they accept.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use super::{Error, Transport};
use crate::config::Address;

/// Connections that wait in the kernel.
const BACKLOG: i32 = 1024;

/// After this, the kernel asks a silent TCP peer whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// And again, until it gives up after a few.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A socket that listens, and takes nothing yet.
#[derive(Debug)]
pub struct Bound {
    socket: Listening,
    address: Address,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Removes the file of a Unix socket when the socket is gone.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Bound {
    /// Listens on an address. A Unix socket that nobody listens on any more is removed first. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Bind`]: the address is taken, not there, or not allowed.
    pub fn bind(address: &Address) -> Result<Self, Error> {
        let fail = |source| Error::Bind { address: address.to_string(), source };
        match address {
            Address::Tcp(wanted) => {
                let listener = bind_tcp(*wanted).map_err(fail)?;
                let actual = listener.local_addr().map_err(fail)?;
                Ok(Self { socket: Listening::Tcp(listener), address: Address::Tcp(actual), _file: None })
            }
            Address::Unix(path) => {
                remove_stale(path).map_err(fail)?;
                let listener = UnixListener::bind(path).map_err(fail)?;
                let file = Some(SocketFile(path.clone()));
                Ok(Self { socket: Listening::Unix(listener), address: address.clone(), _file: file })
            }
        }
    }

    /// Where it listens: with the port that the system chose, if the configured one was 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Transport>, Option<IpAddr>)> {
        match &self.socket {
            Listening::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                tune(&stream)?;
                Ok((Box::new(stream), Some(peer.ip().to_canonical())))
            }
            Listening::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), None))
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "the socket's file could not be removed");
        }
    }
}

fn bind_tcp(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Removes a socket's file that is left from a process that did not end well.
fn remove_stale(path: &Path) -> io::Result<()> {
    let file = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !file.is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_error(address: &Address) -> io::ErrorKind {
        match Bound::bind(address) {
            Err(Error::Bind { source, .. }) => source.kind(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn port_0_becomes_a_real_port_and_a_taken_one_is_an_error() {
        let bound = Bound::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(actual) = bound.address() else { panic!("not TCP") };
        assert_ne!(actual.port(), 0);
        assert_eq!(bind_error(bound.address()), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_stale_socket_file_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate.sock");
        let address = Address::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = Bound::bind(&address).unwrap();
        assert_eq!(bind_error(&address), io::ErrorKind::AddrInUse);
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        assert_eq!(bind_error(&Address::Unix(path.clone())), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
