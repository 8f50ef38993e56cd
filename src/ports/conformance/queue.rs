//! What every queue must do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::ports::clock::Clock;
use crate::ports::queue::{Message, Queue};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// The shortest time for which every queue can hide a message.
const SHORT: Duration = Duration::from_secs(1);

/// How often a queue is asked for what must come, and how long after each other.
const ASKED: u32 = 600;
const PAUSE: Duration = Duration::from_millis(50);

/// Runs every rule, each on an empty queue that `make` makes. `clock` is the one that the queue goes by.
pub async fn all<T: Queue + 'static>(clock: &dyn Clock, make: impl AsyncFn() -> T) {
    let make = async || {
        let queue: Arc<dyn Queue> = Arc::new(make().await);
        queue
    };
    what_is_sent_comes_as_it_was_sent(clock, make().await).await;
    a_very_long_body_comes_whole(clock, make().await).await;
    a_received_message_is_hidden_until_its_time_is_over(clock, make().await).await;
    a_released_message_comes_again_at_once(clock, make().await).await;
    a_deleted_message_never_comes_again(clock, make().await).await;
    what_is_gone_can_be_deleted_and_released(clock, make().await).await;
    receipts_are_counted(clock, make().await).await;
    many_are_sent_and_deleted_at_once(clock, make().await).await;
    no_more_come_than_are_asked_for(clock, make().await).await;
    several_receivers_share_without_loss(clock, make().await).await;
}

async fn send(queue: &dyn Queue, bodies: &[String]) {
    let outcomes = queue.send(bodies).await;
    assert_eq!(outcomes, vec![Ok(()); bodies.len()]);
}

/// Receives until there are `count`, since a queue need not bring all at once.
async fn receive(clock: &dyn Clock, queue: &dyn Queue, count: usize, hidden: Duration) -> Vec<Message> {
    let mut messages = Vec::new();
    for _ in 0..ASKED {
        messages.extend(queue.receive(count - messages.len(), hidden).await.unwrap());
        if messages.len() >= count {
            assert_eq!(messages.len(), count);
            return messages;
        }
        clock.sleep(PAUSE).await;
    }
    panic!("only {} of {count} messages have come: {messages:?}", messages.len());
}

async fn receive_one(clock: &dyn Clock, queue: &dyn Queue, hidden: Duration) -> Message {
    receive(clock, queue, 1, hidden).await.remove(0)
}

/// Nothing comes now; asked some times, since a queue that has something may not bring it the first time.
async fn assert_nothing_comes(queue: &dyn Queue) {
    for _ in 0..3 {
        assert_eq!(queue.receive(10, LONG).await.unwrap(), []);
    }
}

fn bodies_of(messages: &[Message]) -> BTreeSet<String> {
    messages.iter().map(|message| message.body.clone()).collect()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{{\"item\": \"job/{n}\"}}")).collect()
}

/// Any text, and of nothing nothing.
pub async fn what_is_sent_comes_as_it_was_sent(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &[]).await;
    assert_eq!(queue.delete(&[]).await, []);
    assert_nothing_comes(&*queue).await;
    let texts = [
        "{\"値\": \"\u{1f600} ä\\u0000\"}",
        " <tag attribute=\"1\">&amp; \t\r\n",
        "plain",
        "",
        "\0 \u{1} \u{b} \u{1f} \u{7f} \u{85}",
        "\u{fffd} \u{fffe} \u{ffff} \u{10ffff}",
        "{\"gleaner_object\": \"messages/0000000000000000000000000000000000000000000000000000000000000000.json\"}",
    ];
    let sent: BTreeSet<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    send(&*queue, &sent.iter().cloned().collect::<Vec<_>>()).await;
    let messages = receive(clock, &*queue, sent.len(), LONG).await;
    assert_eq!(bodies_of(&messages), sent);
    assert_nothing_comes(&*queue).await;
}

/// Bodies of any length.
pub async fn a_very_long_body_comes_whole(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    let lengths = [60_000, 199_999, 200_000, 200_001, 262_144, 262_145, 1_048_577, 1_500_000];
    let sent: Vec<String> = lengths.iter().map(|length| format!("{length} {}", "値".repeat(*length / 3))).collect();
    send(&*queue, &sent).await;
    let messages = receive(clock, &*queue, sent.len(), LONG).await;
    // Not by assert_eq: nobody wants to read what differs.
    assert!(bodies_of(&messages) == sent.into_iter().collect());
}

/// It comes to one receiver, and to another one when the time of the first is over.
pub async fn a_received_message_is_hidden_until_its_time_is_over(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(2)).await;
    let long = receive_one(clock, &*queue, LONG).await;
    let short = receive_one(clock, &*queue, SHORT).await;
    assert_ne!(long.body, short.body);
    let again = receive_one(clock, &*queue, LONG).await;
    assert_eq!(again.body, short.body);
    assert_nothing_comes(&*queue).await;
}

/// Others have it at once, with the time that they ask for.
pub async fn a_released_message_comes_again_at_once(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(2)).await;
    let messages = receive(clock, &*queue, 2, LONG).await;
    queue.release(&messages[0]).await.unwrap();
    let again = receive_one(clock, &*queue, LONG).await;
    assert_eq!(again.body, messages[0].body);
    assert_nothing_comes(&*queue).await;
    // With the receipt of this time it can be released, and deleted, once more.
    queue.release(&again).await.unwrap();
    let again = receive_one(clock, &*queue, LONG).await;
    assert_eq!(queue.delete(&[again]).await, [Ok(())]);
    assert_nothing_comes(&*queue).await;
}

/// Not even when it is released.
pub async fn a_deleted_message_never_comes_again(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(3)).await;
    let messages = receive(clock, &*queue, 3, LONG).await;
    assert_eq!(queue.delete(&messages[..2]).await, [Ok(()), Ok(())]);
    for message in &messages {
        queue.release(message).await.unwrap();
    }
    let again = receive_one(clock, &*queue, LONG).await;
    assert_eq!(again.body, messages[2].body);
    assert_nothing_comes(&*queue).await;
}

/// Both are successes, and bring nothing back.
pub async fn what_is_gone_can_be_deleted_and_released(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(2)).await;
    let messages = receive(clock, &*queue, 2, LONG).await;
    assert_eq!(queue.delete(&messages[..1]).await, [Ok(())]);
    assert_eq!(queue.delete(&messages).await, [Ok(()), Ok(())]);
    for message in &messages {
        queue.release(message).await.unwrap();
    }
    assert_eq!(queue.delete(&messages).await, [Ok(()), Ok(())]);
    assert_nothing_comes(&*queue).await;
}

/// From 1 on, each message by itself.
pub async fn receipts_are_counted(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(1)).await;
    for receives in 1..=4 {
        let message = receive_one(clock, &*queue, LONG).await;
        assert_eq!(message.receives, receives);
        queue.release(&message).await.unwrap();
    }
    send(&*queue, &["another".to_owned()]).await;
    let messages = receive(clock, &*queue, 2, LONG).await;
    let counts: BTreeSet<_> = messages.iter().map(|message| (message.receives, message.body.as_str())).collect();
    assert_eq!(counts, BTreeSet::from([(1, "another"), (5, numbered(1)[0].as_str())]));
}

/// More than fit into one request of any service.
pub async fn many_are_sent_and_deleted_at_once(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    let sent = numbered(25);
    send(&*queue, &sent).await;
    let messages = receive(clock, &*queue, 25, LONG).await;
    assert_eq!(bodies_of(&messages), sent.into_iter().collect());
    assert_eq!(queue.delete(&messages).await, vec![Ok(()); 25]);
    for message in &messages {
        queue.release(message).await.unwrap();
    }
    assert_nothing_comes(&*queue).await;
}

/// Also when there are more, and when none are asked for.
pub async fn no_more_come_than_are_asked_for(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    send(&*queue, &numbered(14)).await;
    assert_eq!(queue.receive(0, LONG).await.unwrap(), []);
    let mut messages = queue.receive(3, LONG).await.unwrap();
    assert!(messages.len() <= 3, "{messages:?}");
    let more = queue.receive(11, LONG).await.unwrap();
    assert!(more.len() <= 11, "{more:?}");
    messages.extend(more);
    messages.extend(receive(clock, &*queue, 14 - messages.len(), LONG).await);
    assert_eq!(bodies_of(&messages).len(), 14);
}

/// Each message comes to one of those who receive at the same time, and none is lost.
pub async fn several_receivers_share_without_loss(clock: &dyn Clock, queue: Arc<dyn Queue>) {
    let sent = numbered(60);
    send(&*queue, &sent).await;
    let receivers = (0..4).map(|_| async {
        let mut got = Vec::new();
        let mut nothing = 0;
        while nothing < 3 {
            let messages = queue.receive(7, LONG).await.unwrap();
            nothing = if messages.is_empty() { nothing + 1 } else { 0 };
            assert!(queue.delete(&messages).await.iter().all(Result::is_ok));
            got.extend(messages);
        }
        got
    });
    let mut got: Vec<Message> = join_all(receivers).await.into_iter().flatten().collect();
    assert_eq!(bodies_of(&got).len(), got.len(), "some came twice: {got:?}");
    // A queue may have kept some back; they must still be there.
    got.extend(receive(clock, &*queue, 60 - got.len(), LONG).await);
    assert_eq!(bodies_of(&got), sent.into_iter().collect());
}
