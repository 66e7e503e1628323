//! `figures GATE [SECONDS]`: what the README says about size, memory and time, measured.
//!
//! Throughput is told as a ratio within one run: the gate and a bare pass-through take turns under the same load, with
//! the same backend behind them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

mod bare;
mod events;
mod gate;
mod load;
mod policy;
mod process;

use gate::Gate;
use process::Process;

const STARTS: usize = 20;
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 32;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bare", directory, backend] => runtime.block_on(bare::serve(Path::new(directory), backend.parse()?)),
        [gate] => runtime.block_on(measure(Path::new(gate), 3)),
        [gate, seconds] => runtime.block_on(measure(Path::new(gate), seconds.parse().context("SECONDS")?)),
        _ => bail!("usage: figures GATE [SECONDS]"),
    }
}

async fn measure(gate: &Path, seconds: u64) -> anyhow::Result<()> {
    let size = std::fs::metadata(gate)?.len();
    show("release binary, line tables for backtraces included", mib(size));
    start(gate).await?;
    policies(gate).await?;
    throughput(gate, Duration::from_secs(seconds)).await
}

async fn start(binary: &Path) -> anyhow::Result<()> {
    let directory = gate::Directory::make(&events::policy(events::TABLES, 1))?;
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let gate = Gate::start(binary, &directory, 1).await?;
        times.push(gate.took);
        gate.end().await?;
    }
    show(&format!("start to ready, median of {STARTS}"), millis(median(&mut times)));
    let gate = Gate::start(binary, &directory, 1).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    show("memory when idle (RSS)", mib(gate.process.resident()?));
    gate.end().await
}

async fn policies(binary: &Path) -> anyhow::Result<()> {
    let small = policy::Measured::of(1)?;
    let large = policy::Measured::of(10_000)?;
    for (what, measured) in [("100 grants", &small), ("1,000,000 grants", &large)] {
        show(&format!("policy of {what} ({}), read and compiled", mib(measured.bytes)), millis(measured.load));
        show(&format!("  decision about an event of {} datasets, the first", policy::DATASETS), micros(measured.first));
        show("  the same, mean of 10,000", micros(measured.mean));
    }
    show("  a decision with 1,000,000 grants over one with 100", format!("{:.2}", ratio(large.mean, small.mean)));
    let directory = gate::Directory::make(&events::policy(events::TABLES, 10_000))?;
    let gate = Gate::start(binary, &directory, 1).await?;
    show("start to ready with 1,000,000 grants", millis(gate.took));
    show("memory then, idle (RSS)", mib(gate.process.resident()?));
    gate.end().await
}

/// The gate and the bare pass-through in turn; medians over the rounds.
async fn throughput(binary: &Path, length: Duration) -> anyhow::Result<()> {
    let backend = bare::backend().await?;
    let directory = gate::Directory::make(&events::policy(events::TABLES, 1))?;
    let gate = Gate::start(binary, &directory, backend).await?;
    let mut bare = bare::Bare::start(directory.path(), backend).await?;
    let gate_load = load::Load::new(&directory, gate.port, CONNECTIONS)?;
    let bare_load = load::Load::new(&directory, bare.port, CONNECTIONS)?;
    for (load, process) in [(&gate_load, &gate.process), (&bare_load, &bare.process)] {
        load.run(process, Duration::from_secs(1)).await?;
    }
    let (mut with_gate, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with_gate.push(gate_load.run(&gate.process, length).await?);
        without.push(bare_load.run(&bare.process, length).await?);
    }
    println!(
        "\n{CONNECTIONS} connections over TLS 1.3, events of {} bytes, {ROUNDS} rounds in turn",
        gate_load.bytes()
    );
    for (what, rounds) in [("lineage-gate", &with_gate), ("bare pass-through", &without)] {
        let of = |value: fn(&load::Round) -> f64| median(&mut rounds.iter().map(value).collect::<Vec<_>>());
        show(&format!("  {what}: requests per second"), format!("{:.0}", of(|round| round.per_second)));
        show(&format!("  {what}: processor time per request"), format!("{:.0} µs", of(|round| round.cpu * 1e6)));
        show(&format!("  {what}: p99"), format!("{:.1} ms", of(|round| round.p99 * 1e3)));
    }
    let of = |value: fn(&load::Round) -> f64| {
        median(&mut with_gate.iter().zip(&without).map(|(gate, bare)| value(gate) / value(bare)).collect::<Vec<_>>())
    };
    show("requests per second, lineage-gate over bare", format!("{:.2}", of(|round| round.per_second)));
    show("p99, lineage-gate over bare", format!("{:.2}", of(|round| round.p99)));
    show("memory under that load (RSS, peak)", mib(gate.process.peak()?));
    bare.end().await?;
    gate.end().await
}

fn show(what: &str, value: String) {
    println!("{what:64} {value:>12}");
}

fn median<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    values[values.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn micros(duration: Duration) -> String {
    format!("{:.1} µs", duration.as_secs_f64() * 1e6)
}
