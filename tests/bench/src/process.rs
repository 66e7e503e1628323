//! A process under measurement, and what the kernel says of it.

use std::time::Duration;

use anyhow::Context;

/// The kernel's unit of processor time: 100 a second on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// A child that is killed when it is dropped.
pub struct Process(pub std::process::Child);

impl Process {
    /// Resident memory now, in bytes.
    pub fn resident(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory so far, in bytes.
    pub fn peak(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// Processor time so far, user and system.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let (_, fields) = stat.rsplit_once(')').context("no stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Ok(TICK * (fields[11].parse::<u32>()? + fields[12].parse::<u32>()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
