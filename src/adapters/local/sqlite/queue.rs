//! A queue in SQLite, one file, which several processes may use at once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::file::{self, Purpose};
use super::turn::Turn;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::ledger::LedgerError;
use crate::ports::queue::{Message, Queue, QueueError};

/// A queue: "glnq". Numbers are not used again, so that an old receipt never means another message; the index is for
/// finding what may be received, longest visible first.
const QUEUE: Purpose = Purpose {
    application: 0x676c_6e71,
    tables: "
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL,
    visible_at INTEGER NOT NULL,
    receives INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_visible ON messages (visible_at, number);
",
    upgrades: &[],
};

/// A queue in a file of its own. Messages wait in it for ever.
///
/// A message whose time is over may be received by others; who had it may still delete it, since its work is done. It
/// can't be released any more, since that would take it away from whoever has it now.
#[derive(Debug, Clone)]
pub struct SqliteQueue {
    inner: Arc<Inner>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Inner {
    connection: Mutex<Connection>,
    turn: Turn,
    path: PathBuf,
}

impl SqliteQueue {
    /// Opens the queue in the file `path`, made if it isn't there; its folder must be. Blocks.
    ///
    /// # Errors
    /// [`QueueError::NeedsPerson`] for a file that is no queue, one of a newer version, a folder that can't be
    /// written, a full disk; nothing was changed. [`QueueError::Busy`] when other processes keep it locked.
    pub fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, QueueError> {
        let path = path.as_ref();
        let connection = file::open_for(QUEUE, path).map_err(|fault| fault.of(path))?;
        let turn = Turn::open(path).map_err(|error| Fault::Turn(error).of(path))?;
        let inner = Inner { connection: Mutex::new(connection), turn, path: path.to_owned() };
        Ok(Self { inner: Arc::new(inner), clock })
    }

    /// Runs `work` in one transaction that is durable when this returns, on a thread that may block. A caller that
    /// doesn't wait for the end doesn't stop it.
    async fn change<T, W>(&self, work: W) -> Result<T, QueueError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || inner.change(work)).await;
        done.map_err(|error| QueueError::Busy(format!("the work was not done: {error}")))?
    }
}

impl Inner {
    fn change<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, QueueError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = self.turn.take(|| connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate));
        let changed = begun.and_then(|transaction| {
            // An error on the way drops the transaction, which rolls it back.
            let outcome = work(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        });
        changed.map_err(|error| Fault::Sqlite(error).of(&self.path).into())
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    /// All of them are taken, or none.
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        let (count, now) = (bodies.len(), self.clock.now());
        if count == 0 {
            return Vec::new();
        }
        let bodies = bodies.to_vec();
        let sent = self.change(move |connection| {
            let mut insert = connection.prepare_cached("INSERT INTO messages (body, visible_at) VALUES (?1, ?2)")?;
            bodies.iter().try_for_each(|body| insert.execute(params![body, now.0]).map(drop))
        });
        vec![sent.await; count]
    }

    async fn receive(&self, limit: usize, hidden: Duration) -> Result<Vec<Message>, QueueError> {
        let now = self.clock.now();
        self.change(move |connection| receive(connection, limit, now, now.plus(hidden))).await
    }

    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>> {
        let receipts = messages.iter().map(Receipt::of).collect::<Result<Vec<_>, _>>();
        let count = messages.len();
        let deleted = match receipts {
            Ok(receipts) if !receipts.is_empty() => {
                let delete = move |connection: &Connection| {
                    let mut delete = connection.prepare_cached("DELETE FROM messages WHERE number = ?1")?;
                    receipts.iter().try_for_each(|receipt| delete.execute([receipt.number]).map(drop))
                };
                self.change(delete).await
            }
            nothing => nothing.map(drop),
        };
        vec![deleted; count]
    }

    async fn release(&self, message: &Message) -> Result<(), QueueError> {
        let (receipt, now) = (Receipt::of(message)?, self.clock.now());
        let sql = "UPDATE messages SET visible_at = ?1 WHERE number = ?2 AND receives = ?3 AND visible_at > ?1";
        let release = move |connection: &Connection| {
            connection.prepare_cached(sql)?.execute(params![now.0, receipt.number, receipt.receives]).map(drop)
        };
        self.change(release).await
    }
}

fn receive(connection: &Connection, limit: usize, now: Millis, until: Millis) -> rusqlite::Result<Vec<Message>> {
    let mut find = connection.prepare_cached(
        "SELECT number, body, receives + 1 FROM messages WHERE visible_at <= ?1 ORDER BY visible_at, number LIMIT ?2",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = find.query_map(params![now.0, limit], |row| {
        let receipt = Receipt { number: row.get(0)?, receives: row.get(2)? };
        Ok((receipt, row.get(1)?))
    });
    let found: Vec<(Receipt, String)> = found?.collect::<rusqlite::Result<_>>()?;
    let mut hide = connection.prepare_cached("UPDATE messages SET visible_at = ?1, receives = ?2 WHERE number = ?3")?;
    let mut messages = Vec::with_capacity(found.len());
    for (receipt, body) in found {
        hide.execute(params![until.0, receipt.receives, receipt.number])?;
        messages.push(Message { body, receipt: receipt.text(), receives: receipt.receives });
    }
    Ok(messages)
}

/// Which receipt of which message: `17.2` is the second receipt of message 17.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Receipt {
    number: i64,
    receives: u32,
}

impl Receipt {
    fn of(message: &Message) -> Result<Self, QueueError> {
        let numbers = message.receipt.split_once('.');
        let receipt = numbers.and_then(|(number, receives)| {
            Some(Self { number: number.parse().ok()?, receives: receives.parse().ok()? })
        });
        receipt.ok_or_else(|| {
            QueueError::NeedsPerson(format!(
                "{:?} is no receipt of this queue's, a fault of this program",
                message.receipt
            ))
        })
    }

    fn text(self) -> String {
        format!("{}.{}", self.number, self.receives)
    }
}

impl From<LedgerError> for QueueError {
    /// What goes wrong in SQLite is the same for both.
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Busy(why) => Self::Busy(why),
            LedgerError::NeedsPerson(why) => Self::NeedsPerson(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::testing::TestClock;

    const HOUR: Duration = Duration::from_secs(3600);

    fn queue() -> (tempfile::TempDir, Arc<TestClock>, SqliteQueue) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::standing(Millis(1_000)));
        let queue = SqliteQueue::open(folder.path().join("queue.db"), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        (folder, clock, queue)
    }

    async fn one(queue: &SqliteQueue) -> Message {
        let mut messages = queue.receive(2, HOUR).await.unwrap();
        assert_eq!(messages.len(), 1);
        messages.remove(0)
    }

    #[tokio::test]
    async fn a_message_is_hidden_to_the_millisecond() {
        let (_folder, clock, queue) = queue();
        queue.send(&["body".to_owned()]).await.remove(0).unwrap();
        assert_eq!(one(&queue).await.receives, 1);
        clock.advance(HOUR - Duration::from_millis(1));
        assert_eq!(queue.receive(1, HOUR).await.unwrap(), []);
        clock.advance(Duration::from_millis(1));
        assert_eq!(one(&queue).await.receives, 2);
    }

    #[tokio::test]
    async fn who_had_a_message_before_can_delete_it_and_not_release_it() {
        let (_folder, clock, queue) = queue();
        queue.send(&["body".to_owned()]).await.remove(0).unwrap();
        let before = one(&queue).await;
        clock.advance(HOUR);
        let now = one(&queue).await;
        assert_ne!(before.receipt, now.receipt);
        queue.release(&before).await.unwrap();
        assert_eq!(queue.receive(1, HOUR).await.unwrap(), []);
        queue.delete(&[before]).await.remove(0).unwrap();
        clock.advance(HOUR * 2);
        assert_eq!(queue.receive(1, HOUR).await.unwrap(), []);
        queue.release(&now).await.unwrap();
        queue.delete(&[now]).await.remove(0).unwrap();
        // The number of a message that is gone is not given again.
        queue.send(&["another".to_owned()]).await.remove(0).unwrap();
        assert_eq!(one(&queue).await.receipt, "2.1");
    }

    #[tokio::test]
    async fn a_foreign_receipt_is_refused() {
        let (_folder, _, queue) = queue();
        let foreign = Message { body: String::new(), receipt: "AQEB".to_owned(), receives: 1 };
        assert!(matches!(queue.release(&foreign).await, Err(QueueError::NeedsPerson(_))));
        assert!(matches!(queue.delete(&[foreign]).await.remove(0), Err(QueueError::NeedsPerson(_))));
    }
}
