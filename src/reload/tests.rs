use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

/// A target that swaps texts: `bad` in one of its files is refused. The test is told each reading that said something
/// new, as the text now in use.
struct Texts {
    paths: Vec<PathBuf>,
    told: mpsc::UnboundedReceiver<Result<String, String>>,
}

fn read(paths: &[PathBuf]) -> Result<String, String> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = fs::read_dir(path).map_err(|error| error.to_string())?;
            files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    let texts: Result<Vec<String>, _> = files.iter().map(fs::read_to_string).collect();
    let text = texts.map_err(|error| error.to_string())?.join("+");
    if text.contains("bad") { Err(format!("`{text}` is bad")) } else { Ok(text) }
}

fn target(name: &str, paths: &[&Path]) -> (Target, Texts) {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    let (tell, told) = mpsc::unbounded_channel();
    let known = Mutex::new(read(&paths));
    let read_paths = paths.clone();
    let reload = move || {
        let new = read(&read_paths);
        let mut known = known.lock().expect("no panic");
        let changed = *known != new;
        if changed {
            tell.send(new.clone()).ok();
            *known = new.clone();
        }
        new.map(|_| changed)
    };
    (Target { name: name.to_owned(), paths: paths.clone(), reload: Box::new(reload) }, Texts { paths, told })
}

struct Watching {
    registry: Registry,
    trigger: Trigger,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

/// Starts the watch, and returns once it has set up its watches and read everything for the first time.
async fn start(mut targets: Vec<Target>) -> Watching {
    let (read, mut first) = mpsc::unbounded_channel();
    let last = move || {
        read.send(()).ok();
        Ok(false)
    };
    targets.push(Target { name: "last".to_owned(), paths: Vec::new(), reload: Box::new(last) });
    let (trigger, shutdown) = (Trigger::default(), CancellationToken::new());
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let task = tokio::spawn(watch(targets, metrics, trigger.clone(), shutdown.clone()));
    first.recv().await.expect("the watch runs");
    Watching { registry, trigger, shutdown, task }
}

impl Watching {
    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("text");
        text
    }

    /// Ends the watch, after which all that it did is counted.
    async fn stop(mut self) -> String {
        self.shutdown.cancel();
        (&mut self.task).await.expect("no panic");
        self.metrics()
    }
}

impl Texts {
    /// Waits until a reading says `expected`. Readings in the midst of a change may say something else before.
    async fn until(&mut self, expected: Result<&str, &str>) {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        let wait = async { while self.told.recv().await.expect("the watch runs") != expected {} };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        waited.unwrap_or_else(|_| panic!("no reading said {expected:?}"));
    }

    fn write(&self, text: &str) {
        fs::write(&self.paths[0], text).expect("written");
    }
}

/// Puts `files` into the mount in the way of the kubelet: a new folder, and the link `..data` renamed over the old one.
fn mount(mount: &Path, version: &str, files: &[(&str, &str)]) {
    let folder = mount.join(format!("..{version}"));
    fs::create_dir(&folder).expect("made");
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("written");
        if !mount.join(name).exists() {
            symlink(Path::new("..data").join(name), mount.join(name)).expect("linked");
        }
    }
    symlink(format!("..{version}"), mount.join("..data_tmp")).expect("linked");
    let old = fs::read_link(mount.join("..data")).ok();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).expect("swapped");
    if let Some(old) = old {
        fs::remove_dir_all(mount.join(old)).expect("removed");
    }
}

#[tokio::test]
async fn a_file_that_is_written_or_replaced_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    fs::write(&path, "one").expect("written");
    let (target, mut texts) = target("a", &[&path]);
    let watching = start(vec![target]).await;
    texts.write("two");
    texts.until(Ok("two")).await;
    fs::write(folder.path().join("new"), "three").expect("written");
    fs::rename(folder.path().join("new"), &path).expect("renamed");
    texts.until(Ok("three")).await;
    texts.write("four");
    texts.until(Ok("four")).await;
    watching.stop().await;
}

#[tokio::test]
async fn a_kubernetes_mount_is_followed_through_every_swap() {
    let folder = tempfile::tempdir().expect("a folder");
    mount(folder.path(), "1", &[("tls.crt", "crt1"), ("tls.key", "key1")]);
    let (target, mut texts) = target("tls", &[&folder.path().join("tls.crt"), &folder.path().join("tls.key")]);
    let watching = start(vec![target]).await;
    for version in ["2", "3", "4"] {
        let (certificate, key) = (format!("crt{version}"), format!("key{version}"));
        mount(folder.path(), version, &[("tls.crt", &certificate), ("tls.key", &key)]);
        texts.until(Ok(&format!("{certificate}+{key}"))).await;
    }
    watching.stop().await;
}

#[tokio::test]
async fn a_directory_is_read_again_when_a_file_in_it_comes_changes_or_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let policies = folder.path().join("policies");
    fs::create_dir(&policies).expect("made");
    fs::write(policies.join("a.yaml"), "a").expect("written");
    let (target, mut texts) = target("policy", &[&policies]);
    let watching = start(vec![target]).await;
    fs::write(policies.join("b.yaml"), "b").expect("written");
    texts.until(Ok("a+b")).await;
    fs::write(policies.join("b.yaml"), "B").expect("written");
    texts.until(Ok("a+B")).await;
    fs::remove_file(policies.join("a.yaml")).expect("removed");
    texts.until(Ok("B")).await;
    watching.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_a_kubernetes_mount_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    mount(folder.path(), "1", &[("a.yaml", "a1")]);
    let (target, mut texts) = target("policy", &[folder.path()]);
    let watching = start(vec![target]).await;
    for version in ["2", "3"] {
        mount(folder.path(), version, &[("a.yaml", &format!("a{version}"))]);
        texts.until(Ok(&format!("a{version}"))).await;
    }
    watching.stop().await;
}

#[tokio::test]
async fn a_failed_reload_is_counted_and_shown_until_the_files_are_good_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    fs::write(&path, "one").expect("written");
    let (target, mut texts) = target("a", &[&path]);
    let watching = start(vec![target]).await;
    let text = watching.metrics();
    assert!(text.contains("reload_failed{target=\"a\"} 0\n"), "{text}");
    assert!(text.contains("reload_last_success_timestamp_seconds{target=\"a\"} 1"), "{text}");
    texts.write("bad");
    texts.until(Err("`bad` is bad")).await;
    texts.write("still bad");
    texts.until(Err("`still bad` is bad")).await;
    let text = watching.metrics();
    assert!(text.contains("reload_failed{target=\"a\"} 1\n"), "{text}");
    assert!(text.contains("reload_total{target=\"a\",result=\"failure\"} "), "{text}");
    texts.write("good");
    texts.until(Ok("good")).await;
    let text = watching.stop().await;
    assert!(text.contains("reload_failed{target=\"a\"} 0\n"), "{text}");
    assert!(text.contains("reload_total{target=\"a\",result=\"success\"} "), "{text}");
}

#[tokio::test]
async fn a_trigger_reads_everything_and_a_panic_ends_one_reading_only() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let of = |name: &'static str, result: fn() -> Result<bool, String>| {
        let tell = tell.clone();
        let reload = move || {
            tell.send(name).ok();
            result()
        };
        Target { name: name.to_owned(), paths: Vec::new(), reload: Box::new(reload) }
    };
    let targets = vec![of("panics", || panic!("at once")), of("same", || Ok(false)), of("swaps", || Ok(true))];
    let watching = start(targets).await;
    for _ in 0..3 {
        for name in ["panics", "same", "swaps"] {
            assert_eq!(told.recv().await, Some(name));
        }
        watching.trigger.fire();
    }
    let text = watching.stop().await;
    assert!(text.contains("reload_total{target=\"panics\",result=\"failure\"} 3\n"), "{text}");
    assert!(text.contains("reload_total{target=\"swaps\",result=\"success\"} 3\n"), "{text}");
    assert!(!text.contains("reload_total{target=\"same\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_no_event_tells_is_found_by_the_poll() {
    let folder = tempfile::tempdir().expect("a folder");
    let late = folder.path().join("late");
    let (target, mut texts) = target("late", &[&late.join("a")]);
    let watching = start(vec![target]).await;
    let started = Instant::now();
    fs::create_dir(&late).expect("made");
    texts.write("there");
    texts.until(Ok("there")).await;
    assert!(started.elapsed() >= POLL);
    watching.stop().await;
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_watched_again_after_a_poll() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let (target, mut texts) = target("a", &[&inner.join("a")]);
    texts.write("one");
    let changes = Changes::of(std::slice::from_ref(&target));
    let mut watcher = Watcher::start(&changes);
    fs::rename(&inner, folder.path().join("old")).expect("renamed");
    fs::create_dir(&inner).expect("made");
    watcher.renew();
    changes.take();
    texts.write("two");
    tokio::time::timeout(Duration::from_secs(60), changes.wait()).await.expect("an event");
    assert_eq!(changes.take(), [true]);
    texts.told.close();
}

#[tokio::test]
async fn only_events_about_its_own_paths_mark_a_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let [watched, neighbour, last] = ["watched", "neighbour", "last"].map(|name| folder.path().join(name));
    fs::write(&watched, "w").expect("written");
    let (first, second) = (target("watched", &[&watched]).0, target("last", &[&last]).0);
    let changes = Changes::of(&[first, second]);
    let _watcher = Watcher::start(&changes);
    fs::read_to_string(&watched).expect("reading is no change");
    fs::write(neighbour, "n").expect("written");
    fs::write(last, "l").expect("written");
    tokio::time::timeout(Duration::from_secs(60), changes.wait()).await.expect("an event");
    assert_eq!(changes.take(), [false, true], "events come in order: those before were left out");
}

#[tokio::test]
async fn a_hangup_fires_the_trigger() {
    let (trigger, shutdown) = (Trigger::default(), CancellationToken::new());
    let listening = tokio::spawn(on_hangup(trigger.clone(), shutdown.clone()));
    tokio::task::yield_now().await;
    let id = std::process::id().to_string();
    let sent = std::process::Command::new("kill").args(["-HUP", &id]).status().expect("kill runs");
    assert!(sent.success());
    tokio::time::timeout(Duration::from_secs(60), trigger.0.notified()).await.expect("fired");
    shutdown.cancel();
    listening.await.expect("no panic").expect("listened");
}
