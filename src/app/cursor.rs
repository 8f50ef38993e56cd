//! Moving an intake's cursor: only over lines whose outcome is durable, in order, however their writes end.

use std::collections::VecDeque;

use crate::domain::intake::Cursor;

/// What a line has durably become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Blank, or the header.
    Nothing,
    /// A job of this intake.
    Job,
    /// Its job was there already.
    Repeat,
    /// A dead letter from the start.
    BadLine,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    end: u64,
    line: u64,
    outcome: Option<Outcome>,
}

/// The lines between the cursor and the reader.
#[derive(Debug)]
pub struct Tracker {
    cursor: Cursor,
    next: u64,
    slots: VecDeque<Slot>,
    moved: u64,
}

impl Tracker {
    /// Starts at the stored cursor.
    #[must_use]
    pub const fn new(cursor: Cursor) -> Self {
        Self { cursor, next: 0, slots: VecDeque::new(), moved: 0 }
    }

    /// A line was read that ends at `end`. Returns the number under which its outcome is told.
    pub fn begin(&mut self, end: u64, line: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.slots.push_back(Slot { number, end, line, outcome: None });
        number
    }

    /// The outcome of line `number` is durable.
    pub fn done(&mut self, number: u64, outcome: Outcome) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == number) {
            slot.outcome = Some(outcome);
        }
        while let Some(Slot { end, line, outcome: Some(outcome), .. }) = self.slots.front() {
            self.cursor.offset = *end;
            self.cursor.line = *line;
            match outcome {
                Outcome::Nothing => {}
                Outcome::Job => self.cursor.jobs += 1,
                Outcome::Repeat => self.cursor.repeats += 1,
                Outcome::BadLine => self.cursor.bad_lines += 1,
            }
            self.moved += 1;
            self.slots.pop_front();
        }
    }

    /// Where the cursor may stand now.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Lines that the cursor has moved over since the last call.
    pub const fn take_moved(&mut self) -> u64 {
        std::mem::replace(&mut self.moved, 0)
    }

    /// The same without forgetting.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_waits_for_the_slowest_line_before_it() {
        let mut tracker = Tracker::new(Cursor::default());
        let numbers: Vec<u64> = (1..=4).map(|line| tracker.begin(line * 10, line)).collect();
        tracker.done(numbers[1], Outcome::Job);
        tracker.done(numbers[3], Outcome::BadLine);
        assert_eq!(tracker.cursor(), Cursor::default());
        tracker.done(numbers[0], Outcome::Nothing);
        assert_eq!(tracker.cursor(), Cursor { offset: 20, line: 2, jobs: 1, repeats: 0, bad_lines: 0 });
        tracker.done(numbers[2], Outcome::Repeat);
        assert_eq!(tracker.cursor(), Cursor { offset: 40, line: 4, jobs: 1, repeats: 1, bad_lines: 1 });
        assert_eq!((tracker.take_moved(), tracker.moved()), (4, 0));
    }
}
