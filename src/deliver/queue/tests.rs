use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use super::*;

const ALICE: CallerKey = CallerKey([1; 16]);
const BOB: CallerKey = CallerKey([2; 16]);
const CAROL: CallerKey = CallerKey([3; 16]);

type Waiting<'a> = Pin<Box<dyn Future<Output = Option<Place>> + 'a>>;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3)
}

/// Asks, and comes as far as it can.
async fn ask(queue: &Arc<Queue>, caller: CallerKey) -> Result<Option<Place>, Waiting<'_>> {
    let mut waiting: Waiting<'_> = Box::pin(queue.enter(caller, soon()));
    match poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await {
        Poll::Ready(place) => Ok(place),
        Poll::Pending => Err(waiting),
    }
}

async fn take(queue: &Arc<Queue>, caller: CallerKey) -> Place {
    ask(queue, caller).await.ok().flatten().expect("a place")
}

async fn wait(queue: &Arc<Queue>, caller: CallerKey) -> Waiting<'_> {
    ask(queue, caller).await.expect_err("no place yet")
}

async fn is_refused(queue: &Arc<Queue>, caller: CallerKey) -> bool {
    matches!(ask(queue, caller).await, Ok(None))
}

#[tokio::test(start_paused = true)]
async fn a_place_that_comes_free_goes_to_who_waits() {
    let queue = Queue::new(1, 4);
    let place = take(&queue, ALICE).await;
    let waiting = wait(&queue, BOB).await;
    assert_eq!(queue.load(), (1, 1));
    drop(place);
    assert!(waiting.await.is_some());
    assert_eq!(queue.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_the_deadline_and_leaves_nothing_behind() {
    let queue = Queue::new(1, 4);
    let _place = take(&queue, ALICE).await;
    let began = Instant::now();
    assert!(queue.enter(BOB, soon()).await.is_none());
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(queue.load(), (1, 0));
    assert!(!queue.lock().callers.contains_key(&BOB) && queue.lock().turns.is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_caller_has_more_than_a_quarter_of_the_queue() {
    let queue = Queue::new(1, 8);
    let _place = take(&queue, CAROL).await;
    let _first = wait(&queue, ALICE).await;
    let _second = wait(&queue, ALICE).await;
    assert!(is_refused(&queue, ALICE).await);
    let _other = wait(&queue, BOB).await;
    assert_eq!(queue.load(), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_everybody() {
    let queue = Queue::new(1, 2);
    let _place = take(&queue, ALICE).await;
    let _first = wait(&queue, ALICE).await;
    let _second = wait(&queue, BOB).await;
    assert!(is_refused(&queue, CAROL).await);
    assert!(!queue.lock().callers.contains_key(&CAROL));
    let none = Queue::new(1, 0);
    let _place = take(&none, ALICE).await;
    assert!(is_refused(&none, BOB).await);
}

#[tokio::test(start_paused = true)]
async fn no_caller_has_all_places() {
    let queue = Queue::new(4, 16);
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(take(&queue, ALICE).await);
    }
    let hers = wait(&queue, ALICE).await;
    let his = take(&queue, BOB).await;
    drop(his);
    assert_eq!(queue.load(), (3, 1), "the place stays free for others");
    places.pop();
    assert!(hers.await.is_some());
}

#[tokio::test(start_paused = true)]
async fn callers_take_turns_whatever_each_has_waiting() {
    let queue = Queue::new(1, 16);
    let place = take(&queue, CAROL).await;
    let alices = [wait(&queue, ALICE).await, wait(&queue, ALICE).await, wait(&queue, ALICE).await];
    let bobs = [wait(&queue, BOB).await];
    drop(place);
    let [first, second, third] = alices;
    let [bob] = bobs;
    let mut bob = pin!(bob);
    let place = first.await.expect("her turn");
    assert!(poll_fn(|cx| Poll::Ready(bob.as_mut().poll(cx).is_pending())).await);
    drop(place);
    drop(bob.await.expect("his turn, before her second"));
    drop(second.await.expect("her turn"));
    drop(third.await.expect("her turn"));
    assert_eq!(queue.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_given_to_who_left_goes_on_to_the_next() {
    let queue = Queue::new(1, 16);
    let place = take(&queue, CAROL).await;
    let gone = wait(&queue, ALICE).await;
    let stays = wait(&queue, BOB).await;
    drop(gone);
    drop(place);
    assert!(stays.await.is_some());
    assert_eq!(queue.load(), (0, 0));

    let place = take(&queue, CAROL).await;
    let given = wait(&queue, ALICE).await;
    drop(place);
    drop(given);
    assert_eq!(queue.load(), (0, 0), "given, and not taken");
    drop(take(&queue, BOB).await);
}
