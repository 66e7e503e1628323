//! One target: its readings, and what is told about them.

use std::sync::Arc;

use super::{Metrics, Target};

type Reload = dyn Fn() -> Result<bool, String> + Send + Sync;

pub(super) struct Running {
    name: Arc<str>,
    reload: Arc<Reload>,
    metrics: Metrics,
    /// Why the files are wrong; none while they are good.
    failure: Option<String>,
}

impl Running {
    pub(super) fn new(target: Target, metrics: &Metrics) -> Self {
        let name: Arc<str> = target.name.into();
        metrics.good(&name);
        Self { name, reload: Arc::from(target.reload), metrics: metrics.clone(), failure: None }
    }

    /// Reads the files again. `polled`: nothing is known to have changed, so an old failure is not told again.
    pub(super) async fn reload(&mut self, polled: bool) {
        let reload = Arc::clone(&self.reload);
        let result = tokio::task::spawn_blocking(move || reload()).await;
        match result.unwrap_or_else(|error| Err(format!("reading it panicked: {error}"))) {
            Ok(swapped) => self.succeed(swapped),
            Err(error) => self.fail(error, polled),
        }
    }

    fn succeed(&mut self, swapped: bool) {
        let target = &*self.name;
        let recovered = self.failure.take().is_some();
        if swapped {
            self.metrics.count(&self.name, "success");
            tracing::info!(target_name = target, "reloaded");
        } else if recovered {
            tracing::info!(target_name = target, "the files are good again, and say what is in use already");
        }
        if swapped || recovered {
            self.metrics.good(&self.name);
        }
    }

    fn fail(&mut self, error: String, polled: bool) {
        self.metrics.count(&self.name, "failure");
        self.metrics.bad(&self.name);
        if !polled || self.failure.as_ref() != Some(&error) {
            let target = &*self.name;
            tracing::error!(
                target_name = target,
                error,
                "reload failed, the last good stays in use; correct the files, they are read again when they change"
            );
        }
        self.failure = Some(error);
    }
}
