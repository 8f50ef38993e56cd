use std::collections::BTreeSet;
use std::time::Duration;

use super::expiry::{Kept, SQS_KEEPS};
use super::gather::Gathering;
use super::*;
use crate::domain::job::{Mode, Rev};
use crate::domain::part::{Attempt, PartId, Uploaded};
use crate::domain::time::Millis;
use crate::ports::conformance::sample::{self, START};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn rev() -> Rev {
    Rev("r".to_owned())
}

/// Jobs, rows and lines of several classes, and a part that waits with its attempt.
fn items() -> Vec<Item> {
    let mut old = sample::job_in("old-job", rev(), State::Parked, START, None);
    old.blame("exhausted:503", "overloaded");
    old.parked_at = Some(Millis(START.0 - 3_600_000));
    old.possible_duplicates = 2;
    old.handles = vec![sample::handle("v1_first")];
    old.letter.sent = Some(START);
    let mut young = sample::job_in("young-job", rev(), State::Parked, START.plus(DAY), None);
    young.blame("blocked:SAFETY", "no");
    young.handles = vec![crate::domain::job::Handle { at: START.plus(DAY), ..sample::handle("v1_second") }];
    let mut imported = sample::job_in("imported", rev(), State::Parked, START.plus(HOUR), None);
    imported.blame("import:no_payload", "its line is not here");
    let mut attempt = sample::job_in("attempt", rev(), State::Parked, START, None);
    attempt.mode = Mode::Batch;
    attempt.blame("unclear", "may be there");
    attempt.batch = Some(Box::new(Attempt {
        run: sample::RUN.to_owned(),
        part: PartId::numbered(3),
        number: 1,
        rows_at: "runs/rows.jsonl".to_owned(),
        rows: 250,
        bytes: 1,
        file: Some(Uploaded { name: "files/in".to_owned(), at: START.plus(HOUR * 2) }),
        not_listed: None,
        refusals: 0,
        output: None,
        calls: None,
    }));
    let mut part = sample::part(3, rev());
    part.enter(State::Parked, None, START);
    let mut row = sample::dead_row("row-1", rev());
    row.letter.sent = Some(START.plus(HOUR));
    vec![
        Item::Job(old),
        Item::Job(young),
        Item::Job(imported),
        Item::Job(attempt),
        Item::Part(Box::new(part)),
        Item::DeadRow(row),
        Item::DeadGroup(sample::dead_group("permanent:400", rev())),
        Item::BadLine(sample::bad_line(3, rev())),
    ]
}

fn summed(items: &[Item], now: Millis, messages_kept: Option<Duration>) -> Summary {
    let mut gathering = Gathering::new(now, messages_kept);
    items.iter().for_each(|item| gathering.add(item));
    let file = |(sha256, count): (String, u64)| File {
        file: "質問.jsonl".to_owned(),
        run: Some(sample::RUN.to_owned()),
        sha256,
        count,
    };
    let files = gathering.largest_files(FILES).into_iter().map(file).collect();
    gathering.finish(files, Vec::new())
}

#[test]
fn every_dead_letter_is_counted_once_and_one_of_many_rows_counts_each() {
    let now = START.plus(DAY * 2);
    let summary = summed(&items(), now, Some(SQS_KEEPS));
    assert_eq!((summary.dead_letters, summary.parked, summary.clean), (7, 3 + 250 + 1 + 4001 + 1, false));
    let classes: Vec<(&str, u64)> = summary.classes.iter().map(|class| (class.class.as_str(), class.count)).collect();
    assert_eq!(
        classes,
        [
            ("permanent:400", 4001),
            ("unclear", 250),
            ("blocked:SAFETY", 2),
            ("bad_line:utf8", 1),
            ("exhausted:503", 1),
            ("import:no_payload", 1),
        ]
    );
    assert_eq!(summary.parked, classes.iter().map(|(_, count)| count).sum::<u64>());
    assert_eq!(summary.modes, BTreeMap::from([("batch", 4252), ("interaction", 3), ("line", 1)]));
    assert_eq!(summary.parked, summary.modes.values().sum::<u64>());
    assert_eq!(summary.parked, summary.files.iter().map(|file| file.count).sum::<u64>());
    assert_eq!(summary.oldest, Some(Millis(START.0 - 3_600_000).to_string()));
    assert_eq!((summary.newest, summary.oldest_age_s), (Some(START.plus(DAY).to_string()), Some(49 * 3600)));
    assert_eq!((summary.unsent_messages, summary.no_payload, summary.possible_duplicates), (5, 1, 2));
    let blocked = summary.classes.iter().find(|class| class.class == "blocked:SAFETY").unwrap();
    assert_eq!((&blocked.oldest, &blocked.newest), (&START.to_string(), &START.plus(DAY).to_string()));
}

#[test]
fn what_is_deleted_next_is_told_of_each_kind_soonest_first() {
    let expiries = |now, kept| summed(&items(), now, kept).expiries;
    let now = START.plus(DAY * 2);
    let all = expiries(now, Some(SQS_KEEPS));
    let told: Vec<_> = all.iter().map(|next| (next.what, next.id.as_str(), next.days, next.items)).collect();
    assert_eq!(
        told,
        [
            (Kept::InputFile, "attempt", 0.0, 1),
            (Kept::Message, "old-job", 12.0, 2),
            (Kept::Interaction, "old-job", 53.0, 2),
        ]
    );
    assert_eq!(all[2].name.as_deref(), Some("v1_first"));
    assert_eq!(all[2].free_tier_at, Some(START.plus(DAY).to_string()));
    let kinds = |expiries: Vec<Expiry>| expiries.iter().map(|next| next.what).collect::<BTreeSet<_>>();
    assert!(!kinds(expiries(now, None)).contains(&Kept::Message), "a folder's queue forgets nothing");
    // What is gone is no news: the first is gone, and the second is next.
    let later = expiries(START.plus(DAY * 55), Some(SQS_KEEPS));
    assert_eq!((later.len(), later[0].id.as_str(), later[0].items), (1, "young-job", 1));
    assert_eq!(summed(&items(), START.plus(DAY * 99), Some(SQS_KEEPS)).days_until_expiry, None);
}

#[test]
fn it_is_clean_only_when_there_is_nothing_to_say() {
    let nothing = summed(&[], START, Some(SQS_KEEPS));
    assert!(nothing.clean && nothing.oldest.is_none() && nothing.days_until_expiry.is_none());
    assert_eq!(nothing.line(), "clean: no dead letters");
    assert!(nothing.text(&|command| command.to_owned()).starts_with("Clean: "));
    let held = HeldRun {
        run: "9f86".to_owned(),
        file: "rows.jsonl".to_owned(),
        class: "permanent:400".to_owned(),
        message: "no such field".to_owned(),
        since: START.to_string(),
    };
    let imported =
        HeldRun { class: "import:rows".to_owned(), message: "its rows may be in a batch".to_owned(), ..held.clone() };
    let waits = Gathering::new(START, None).finish(Vec::new(), vec![imported]);
    let told = waits.text(&|command| command.to_owned());
    assert!(told.contains("The run of rows.jsonl waits for you: its rows may be in a batch."), "{told}");
    let waits = Gathering::new(START, None).finish(Vec::new(), vec![held]);
    assert_eq!((waits.clean, waits.line().as_str()), (false, "0 dead letters, 1 run waits for you"));
    assert!(waits.text(&|command| command.to_owned()).contains("  resume 9f86"));
    let mut open = sample::job("open", rev());
    open.possible_duplicates = 1;
    let mut gathering = Gathering::new(START, None);
    gathering.add_open(&Item::Job(open));
    let paid = gathering.finish(Vec::new(), Vec::new());
    assert_eq!((paid.clean, paid.line().as_str()), (false, "0 dead letters, 1 possible duplicate"));
}

#[test]
fn the_text_says_what_there_is_and_what_to_do() {
    let summary = summed(&items(), START.plus(DAY * 2), Some(SQS_KEEPS));
    let line = "7 dead letters, mostly permanent:400, next expiry in less than a day, 2 possible duplicates";
    assert_eq!(summary.line(), line);
    insta::assert_snapshot!(summary.text(&|command| format!("gleaner --stack night {command}")), @r"
    7 dead letters wait (of 4256 jobs, rows and lines), the oldest for 2days 1h.

         4001  permanent:400
          250  unclear
            2  blocked:SAFETY
            1  bad_line:utf8
            1  exhausted:503
            1  import:no_payload

    All of 質問.jsonl.

    1 imported job without a line: hand the file of their lines in, and they go on.
    2 possible duplicates: jobs sent again that may have been accepted before, and paid for twice.
    5 messages still to be sent to the queue.

    What is deleted next:

      in less than a day: the input files/in of attempt
        Gemini deletes it; its rows are kept here.
      in 12 days: the message of old-job (the first of 2)
        SQS forgets it; the tick sends another one before.
      in 53 days: the interaction v1_first of old-job (the first of 2)
        Gemini deletes it; on the free tier a day after it was made.

      gleaner --stack night dead
      gleaner --stack night replay
    ");
}

#[test]
fn text_from_elsewhere_breaks_no_line_and_no_terminal() {
    let mut job = sample::job_in("k\u{1b}[2J", rev(), State::Parked, START, None);
    job.blame(&format!("x\n\u{1b}[31m{}", "y".repeat(300)), "no");
    let summary = summed(&[Item::Job(job)], START, None);
    let text = format!("{}\n{}", summary.line(), summary.text(&|command| command.to_owned()));
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() < 260), "{text}");
}
