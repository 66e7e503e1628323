//! The files that a configuration names.

use std::path::{Path, PathBuf};

use super::{Address, AuditOutput, ClientCertificate, Config, UpstreamAuth};

/// Makes every path of the configuration absolute: relative ones start at the directory of the file that holds them.
///
/// Symbolic links are left alone: Kubernetes swaps them to change a file.
pub(super) fn resolve(config: &mut Config, directory: &Path) {
    for path in all(config) {
        *path = directory.join(&*path);
    }
}

fn all(config: &mut Config) -> Vec<&mut PathBuf> {
    let mut paths = Vec::new();
    for listener in &mut config.listeners {
        paths.extend(of_address(&mut listener.address));
        if let Some(tls) = &mut listener.tls {
            paths.extend([&mut tls.certificate, &mut tls.key]);
            paths.extend(&mut tls.client_ca);
        }
    }
    for issuer in &mut config.auth.issuers {
        let files = [
            &mut issuer.ca_file,
            &mut issuer.token_file,
            &mut issuer.jwks_file,
            &mut issuer.public_key_file,
            &mut issuer.secret_file,
        ];
        paths.extend(files.into_iter().flatten());
    }
    paths.extend(&mut config.policy.files);
    if let Some(gravitino) = &mut config.policy.gravitino {
        paths.extend(&mut gravitino.ca_file);
        paths.extend(gravitino.client_certificate.iter_mut().flat_map(of_certificate));
        paths.extend(of_auth(&mut gravitino.credential));
    }
    for upstream in &mut config.upstreams {
        paths.extend(&mut upstream.path);
        paths.extend(&mut upstream.ca_file);
        paths.extend(upstream.client_certificate.iter_mut().flat_map(of_certificate));
        paths.extend(of_auth(&mut upstream.auth));
    }
    match &mut config.audit.output {
        AuditOutput::Stdout | AuditOutput::Off => {}
        AuditOutput::File(path) => paths.push(path),
    }
    paths.extend(of_address(&mut config.health.address));
    if let Some(admin) = &mut config.admin {
        paths.extend(of_address(&mut admin.address));
        paths.extend(&mut admin.token_file);
    }
    paths
}

fn of_certificate(client: &mut ClientCertificate) -> [&mut PathBuf; 2] {
    [&mut client.certificate, &mut client.key]
}

fn of_auth(auth: &mut UpstreamAuth) -> Option<&mut PathBuf> {
    match auth {
        UpstreamAuth::None | UpstreamAuth::Forward => None,
        UpstreamAuth::BearerFile(file) => Some(file),
        UpstreamAuth::Header(header) => Some(&mut header.file),
    }
}

fn of_address(address: &mut Address) -> Option<&mut PathBuf> {
    match address {
        Address::Tcp(_) => None,
        Address::Unix(path) => Some(path),
    }
}
