//! The process itself, under the names that every Prometheus client uses.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Reads `/proc/self` when asked.
#[derive(Debug)]
pub(super) struct Process {
    /// Since the Unix epoch.
    started: Duration,
}

impl Process {
    pub(super) fn new(started: Duration) -> Self {
        Self { started }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = ConstGauge::new(self.started.as_secs_f64());
        let name = "process_start_time";
        let help = "When the process started, in seconds since the Unix epoch";
        started.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), started.metric_type())?)?;
        if let Some(bytes) = resident_bytes() {
            let memory = ConstGauge::new(bytes);
            let help = "Resident memory";
            let unit = Some(&Unit::Bytes);
            memory.encode(encoder.encode_descriptor("process_resident_memory", help, unit, memory.metric_type())?)?;
        }
        if let Some(count) = open_files() {
            let files = ConstGauge::new(count);
            files.encode(encoder.encode_descriptor("process_open_fds", "Open files", None, files.metric_type())?)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_files() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}
