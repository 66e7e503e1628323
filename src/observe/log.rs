//! The process' own log: one JSON object a line to standard error.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::lines::{Lines, write_whole};

/// The variable that holds the filter, such as `debug` or `info,lineage_gate::auth=trace`.
pub const FILTER_VARIABLE: &str = "LINEAGE_GATE_LOG";

const LAST_LINES: Duration = Duration::from_secs(1);

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object: for the server.
    Json,
    /// Text for a person: for the other commands.
    Text,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be read.
    #[error(
        "{FILTER_VARIABLE} is no log filter: {0}; write a level such as `debug`, or `info,lineage_gate::auth=trace`"
    )]
    Filter(String),
    /// The system gives no thread for it.
    #[error("cannot start the thread that writes the log: {0}")]
    Thread(#[from] io::Error),
    /// Something in this process has set up a log already.
    #[error("the log is set up twice in this process")]
    Twice,
}

/// Keeps the log going; dropping it writes the last lines, for at most a second.
#[derive(Debug)]
#[must_use = "the last lines are written when this is dropped"]
pub struct Log {
    lines: Arc<Lines>,
}

/// Sets up the log of the whole process, filtered by [`FILTER_VARIABLE`] (default `info`).
///
/// Lines are queued and written by a thread of their own; with standard error stuck, they are dropped.
///
/// # Errors
/// See [`Error`].
pub fn init(format: Format) -> Result<Log, Error> {
    let filter = filter(std::env::var(FILTER_VARIABLE).ok().as_deref())?;
    let lines = Lines::start("log", |batch, _| {
        // There is no other place that could be told about a standard error that is gone.
        write_whole(&mut io::stderr(), batch).ok();
    })?;
    let lines = Arc::new(lines);
    let writer = Writer(Arc::clone(&lines));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let installed = match format {
        Format::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
        Format::Text => builder.with_target(false).try_init(),
    };
    installed.map_err(|_| Error::Twice)?;
    Ok(Log { lines })
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines.flush(LAST_LINES);
    }
}

fn filter(text: Option<&str>) -> Result<EnvFilter, Error> {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("info");
    // A lone word that is no level would be taken for the name of a module, and everything else would be silent.
    let is_level = |word: &str| word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let stray = text.split(',').map(str::trim).find(|part| !part.contains('=') && !is_level(part));
    if let Some(stray) = stray {
        return Err(Error::Filter(format!("`{stray}` is no level")));
    }
    EnvFilter::builder().parse(text).map_err(|error| Error::Filter(error.to_string()))
}

/// Hands each event, which the formatter writes in one call, to the queue.
#[derive(Debug, Clone)]
struct Writer(Arc<Lines>);

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_default_is_info_and_a_wrong_filter_names_the_variable() {
        for text in [None, Some(""), Some("  ")] {
            assert_eq!(filter(text).expect("a filter").to_string(), "info");
        }
        assert_eq!(filter(Some("warn,lineage_gate::auth=trace")).expect("a filter").to_string().len(), 29);
        for typo in ["debg", "info,lineage_gate"] {
            assert!(filter(Some(typo)).is_err(), "{typo}");
        }
        let message = filter(Some("lineage_gate=loud")).expect_err("no level").to_string();
        assert!(message.starts_with("LINEAGE_GATE_LOG is no log filter"), "{message}");
    }

    #[test]
    fn an_event_is_one_whole_json_line() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&written);
        let lines =
            Lines::start("test", move |batch: &[u8], _| sink.lock().expect("no panic").extend_from_slice(batch));
        let lines = Arc::new(lines.expect("a thread"));
        let builder = tracing_subscriber::fmt().with_writer(Writer(Arc::clone(&lines)));
        let subscriber = builder.json().flatten_event(true).with_current_span(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(listener = "a\nb", "two\nlines");
            tracing::info!("second");
        });
        assert!(lines.flush(Duration::from_secs(60)));
        let text = String::from_utf8(written.lock().expect("no panic").clone()).expect("UTF-8");
        let events: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(events.len(), 2);
        assert_eq!((&events[0]["message"], &events[0]["level"]), (&"two\nlines".into(), &"WARN".into()));
        assert_eq!(events[0]["listener"], "a\nb");
    }
}
