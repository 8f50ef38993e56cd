//! Any item: every kind with any fields.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::gate::Gate;
use crate::domain::intake::{Cursor, Held, Intake, Run};
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{Fate, Handle, Heard, InputRef, Job, JobKey, KeyId, Lease, Mode, Moment, Rev, State};
use crate::domain::letter::Letter;
use crate::domain::part::{Attempt, Calls, Counts, Intent, Output, Part, PartId, Passed, Sending, Uploaded};
use crate::domain::time::Millis;
use crate::domain::webhook::{Event, Outcome, Stray};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("\u{0}\u{1f}\u{7f}\r\n\t\u{feff}\u{10ffff}".to_owned()),
        "[a-z0-9_-]{1,63}",
        any::<String>(),
    ]
}

fn time() -> impl Strategy<Value = Millis> {
    prop_oneof![Just(0), Just(i64::MAX), Just(i64::MIN), any::<i64>(), 1_700_000_000_000_i64..1_900_000_000_000]
        .prop_map(Millis)
}

fn state() -> impl Strategy<Value = State> {
    let all: Vec<State> = State::all().collect();
    prop::sample::select(all)
}

fn maybe<T: std::fmt::Debug + Clone + 'static>(of: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Option<T>> {
    prop::option::of(of).boxed()
}

fn lease() -> impl Strategy<Value = Lease> {
    (text(), time()).prop_map(|(holder, until)| Lease { holder, until })
}

fn input() -> impl Strategy<Value = InputRef> {
    (text(), any::<[u64; 3]>()).prop_map(|(intake, [line, offset, length])| InputRef { intake, line, offset, length })
}

fn handle() -> impl Strategy<Value = Handle> {
    let fate = prop::sample::select(vec![Fate::Live, Fate::Won, Fate::Ended, Fate::GivenUp]);
    (text(), any::<[u32; 3]>(), time(), maybe(time()), fate).prop_map(
        |(id, [attempt, polls, looks], at, gone, fate)| {
            let key = KeyId(id.clone());
            Handle { id, attempt, key, at, deadline: at, polls, missing_since: gone, fate, given_up_at: gone, looks }
        },
    )
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let output = (text(), any::<u64>(), maybe(text()));
    let output = output.prop_map(|(file, announced, ended)| Output { file, announced, ended });
    let file = (text(), time()).prop_map(|(name, at)| Uploaded { name, at });
    let found = (maybe(file), maybe(time()), maybe(output));
    (prop::array::uniform3(text()), any::<[u32; 2]>(), any::<[u64; 2]>(), found).prop_map(
        |([run, part, rows_at], [number, refusals], [rows, bytes], (file, not_listed, output))| {
            let part = PartId(part);
            let calls = not_listed.map(|not_before| Calls { in_doubt: refusals / 3, not_before: Some(not_before) });
            Attempt { run, part, number, rows_at, rows, bytes, file, not_listed, refusals, output, calls }
        },
    )
}

fn letter() -> impl Strategy<Value = Letter> {
    (any::<u32>(), maybe(time()), maybe(lease()), maybe(text())).prop_map(|(number, sent, sender, reason)| Letter {
        number,
        sent,
        sender,
        reason,
    })
}

fn nothing_or(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn job() -> impl Strategy<Value = Item> {
    let mode = prop::sample::select(vec![Mode::Interaction, Mode::Call, Mode::Batch]);
    let moment = (time(), state(), any::<u32>(), maybe(text()));
    let moment = moment.prop_map(|(at, state, attempt, class)| Moment(at, state, attempt, class));
    let heard = (text(), text(), time(), any::<u32>(), maybe(time()))
        .prop_map(|(id, nonce, at, polls, otherwise)| Heard { id, nonce, at, polls, otherwise });
    let (doubtful, heard) = (prop::collection::vec((any::<u32>(), text()), 0..3), prop::collection::vec(heard, 0..3));
    let lists = (prop::collection::vec(handle(), 0..4), prop::collection::vec(moment, 0..5), doubtful, heard);
    let texts = prop::array::uniform5(text());
    let optional = (maybe(time()), maybe(lease()), maybe(text()), maybe(text()), maybe(attempt()));
    let plain = (any::<[u32; 5]>(), any::<u64>(), any::<[bool; 2]>(), mode, state(), time());
    (texts, optional, plain, lists, input(), letter()).prop_map(
        |(texts, optional, plain, (handles, history, doubtful, heard), input, letter)| {
            let [key, rev, content, model, nonce] = texts;
            let (due_at, lease, class, message, batch) = optional;
            let (numbers, deadline_s, [maybe_accepted, counted_duplicate], mode, state, since) = plain;
            let [max_attempts, attempts, consume_tries, replays, possible_duplicates] = numbers;
            Item::Job(Job {
                key: JobKey(key),
                rev: Rev(rev),
                answer: message.clone(),
                parked_at: due_at,
                letter,
                changes: nothing_or(&content),
                batch: batch.map(Box::new),
                state,
                since,
                due_at,
                lease,
                input,
                content,
                mode,
                model,
                max_attempts,
                deadline_s,
                attempts,
                consume_tries,
                replays,
                possible_duplicates,
                maybe_accepted,
                counted_duplicate,
                nonce,
                doubtful,
                heard,
                handles,
                class,
                message,
                history,
            })
        },
    )
}

fn run() -> impl Strategy<Value = Run> {
    let held = (text(), text(), time()).prop_map(|(class, message, since)| Held { class, message, since });
    let let_go = prop::collection::vec(text(), 0..3);
    (text(), text(), any::<[u32; 2]>(), any::<u64>(), maybe(held), let_go).prop_map(
        |(key, model, [max_attempts, parts], deadline_s, held, let_go)| Run {
            key,
            model,
            max_attempts,
            deadline_s,
            parts,
            held,
            let_go,
        },
    )
}

fn intake() -> impl Strategy<Value = Item> {
    let optional = (maybe(time()), maybe(lease()), maybe(text()), maybe(text()), maybe(run()));
    (prop::array::uniform3(text()), optional, any::<[u64; 7]>(), state(), time(), any::<[bool; 2]>()).prop_map(
        |([sha256, rev, file], (due_at, lease, on_result, cancelled, run), numbers, state, since, [mixed, calls])| {
            let [bytes, lines, offset, line, jobs, repeats, bad_lines] = numbers;
            let cursor = Cursor { offset, line, jobs, repeats, bad_lines };
            let (rev, landed_at) = (Rev(rev), since);
            Item::Intake(Intake {
                sha256,
                rev,
                state,
                since,
                due_at,
                lease,
                file,
                bytes,
                lines,
                landed_at,
                mixed,
                mode: calls.then_some(Mode::Call),
                calls,
                on_result,
                run,
                cancelled,
                cursor,
            })
        },
    )
}

fn gate() -> impl Strategy<Value = Item> {
    let optional = (maybe(time()), maybe(text()), maybe(text()), maybe(lease()), maybe(text()));
    (prop::array::uniform2(text()), optional, any::<[u32; 2]>(), time(), any::<bool>()).prop_map(
        |([name, rev], (until, class, message, probe, paused), [refusals, unclear], since, needs_person)| {
            let rev = Rev(rev);
            Item::Gate(Gate { name, rev, since, until, refusals, unclear, class, message, needs_person, probe, paused })
        },
    )
}

fn bad_line() -> impl Strategy<Value = Item> {
    (prop::array::uniform5(text()), maybe(time()), input(), state(), time(), letter()).prop_map(
        |([rev, file, class, message, excerpt], due_at, input, state, since, letter)| {
            let (rev, first_seen) = (Rev(rev), since);
            Item::BadLine(BadLine {
                rev,
                state,
                since,
                due_at,
                input,
                file,
                class,
                message,
                excerpt,
                first_seen,
                letter,
            })
        },
    )
}

/// A map of numbers. No name in DynamoDB is empty.
fn numbers() -> impl Strategy<Value = BTreeMap<String, u64>> {
    prop::collection::btree_map(text().prop_filter("a name", |name| !name.is_empty()), any::<u64>(), 0..4)
}

fn passed() -> impl Strategy<Value = Passed> {
    (any::<u32>(), text(), any::<[bool; 2]>(), any::<[u64; 10]>(), numbers(), any::<[u64; 5]>()).prop_map(
        |(attempt, name, [late, without_output], counts, classes, places)| {
            let [rows, succeeded, retry, dead, settled_before, recovered, missing, duplicates, unknown, unreadable] =
                counts;
            let counts = Counts {
                rows,
                succeeded,
                retry,
                dead,
                settled_before,
                recovered,
                missing,
                duplicates,
                unknown,
                unreadable,
            };
            let [told, dead_bytes, mended, recovered_bytes, retry_bytes] = places;
            let (healed, result_bytes) = (mended / 2, told);
            Passed {
                attempt,
                name,
                late,
                without_output,
                counts,
                classes,
                told,
                dead_bytes,
                mended,
                recovered_bytes,
                retry_bytes,
                healed,
                result_bytes,
            }
        },
    )
}

fn intent() -> impl Strategy<Value = Intent> {
    (any::<[u32; 2]>(), maybe(text()), any::<[bool; 2]>(), (text(), text()), any::<u64>()).prop_map(
        |([attempt, download], output, [late, last], blame, announced)| Intent {
            attempt,
            output,
            download,
            late,
            blame,
            announced,
            last,
        },
    )
}

fn part() -> impl Strategy<Value = Item> {
    let sending = (any::<[u32; 2]>(), text(), any::<[u64; 2]>(), any::<bool>(), maybe((text(), text())));
    let sending = sending.prop_map(|([number, tries], rows_at, [rows, bytes], free, ended)| Sending {
        number,
        rows_at,
        rows,
        bytes,
        tries,
        free,
        ended,
    });
    let cursor = any::<[u64; 5]>();
    let cursor =
        cursor.prop_map(|[offset, line, jobs, repeats, bad_lines]| Cursor { offset, line, jobs, repeats, bad_lines });
    let optional = (maybe(time()), maybe(lease()), maybe(cursor), maybe(intent()));
    let lists = (prop::collection::vec(sending, 0..4), prop::collection::vec(passed(), 0..3));
    let plain = (any::<u32>(), any::<[u64; 3]>(), any::<bool>(), state(), time());
    ([text(), text()], prop::array::uniform4(text()), optional, lists, plain).prop_map(
        |([run, part], [rev, intake, model, rows_at], (due_at, lease, upto, intent), (attempts, passes), plain)| {
            let (used, [rows, bytes, discarded], halved, state, since) = plain;
            Item::Part(Box::new(Part {
                run,
                part: PartId(part),
                rev: Rev(rev),
                state,
                since,
                due_at,
                lease,
                intake,
                model,
                rows_at,
                rows,
                bytes,
                upto,
                used,
                granted: used / 3,
                replays: used / 7,
                maybe_paid: halved,
                of_group: halved.then(|| "blocked:SAFETY".to_owned()),
                by_call: used % 2 == 1,
                attempts,
                intent,
                passes,
                halved,
                discarded,
            }))
        },
    )
}

fn dead_row() -> impl Strategy<Value = Item> {
    let texts = (prop::array::uniform4(text()), prop::array::uniform4(text()));
    (texts, maybe(time()), any::<[u32; 3]>(), any::<[u64; 2]>(), state(), time(), letter()).prop_map(
        |(
            ([id, rev, intake, run], [part, key, class, message]),
            due_at,
            [attempt, attempts, replays],
            [from, length],
            state,
            since,
            letter,
        )| {
            Item::DeadRow(DeadRow {
                replays,
                replayed_in: nothing_or(&part).map(PartId),
                letter,
                at: (key.clone(), from, length),
                id,
                rev: Rev(rev),
                state,
                since,
                due_at,
                intake,
                run,
                part: PartId(part),
                attempt,
                attempts,
                key,
                class,
                message,
                first_seen: since,
            })
        },
    )
}

fn dead_group() -> impl Strategy<Value = Item> {
    (prop::array::uniform5(text()), maybe(time()), numbers(), state(), time(), letter()).prop_map(
        |([rev, intake, run, class, message], due_at, rows, state, since, letter)| {
            let (replays, replayed_in) = (letter.number, nothing_or(&class).map(PartId).into_iter().collect());
            let (rev, first_seen) = (Rev(rev), since);
            let taken = nothing_or(&run).map(|entry| (entry.clone(), (7, PartId(entry)))).into_iter().collect();
            Item::DeadGroup(DeadGroup {
                rev,
                state,
                since,
                due_at,
                intake,
                run,
                class,
                message,
                rows,
                first_seen,
                replays,
                replayed_in,
                taken,
                letter,
            })
        },
    )
}

fn event() -> impl Strategy<Value = Item> {
    let outcome = prop_oneof![
        text().prop_map(Outcome::Queued),
        text().prop_map(Outcome::Over),
        Just(Outcome::Unknown),
        Just(Outcome::Other),
    ];
    (prop::array::uniform3(text()), state(), [time(), time()], maybe(time()), maybe(outcome)).prop_map(
        |([name, rev, about], state, [since, expires], lease, outcome)| {
            Item::Event(Event { name, rev: Rev(rev), state, since, about, lease, outcome, expires })
        },
    )
}

fn stray() -> impl Strategy<Value = Item> {
    (text(), text(), time(), any::<u32>(), time()).prop_map(|(handle, rev, since, events, expires)| {
        Item::Stray(Stray { handle, rev: Rev(rev), since, events, expires })
    })
}

/// Any item.
pub fn item() -> impl Strategy<Value = Item> {
    prop_oneof![job(), intake(), gate(), bad_line(), part(), dead_row(), dead_group(), event(), stray()]
}
