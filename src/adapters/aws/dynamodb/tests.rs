use aws_sdk_dynamodb::types::AttributeValue;
use proptest::prelude::*;

use super::attributes::{self, Attributes};
use crate::domain::dead::DeadRow;
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::{InputRef, Job, JobKey, KeyId, Mode, Rev, State};
use crate::domain::part::{Passed, Sending};
use crate::domain::time::Millis;
use crate::domain::webhook::Stray;
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ledger::LedgerError;
use crate::ports::testing::TestIds;

mod any;
mod size;

proptest! {
    #[test]
    fn any_item_comes_back_as_it_was_written(item in any::item()) {
        let (id, written) = (item.id(), attributes::of(&item).unwrap());
        prop_assert_eq!(attributes::text(&written, "pk"), Some(id.0.as_str()));
        prop_assert_eq!(written.contains_key("open"), item.state().is_listed());
        prop_assert_eq!(written.contains_key("due"), item.state().is_listed());
        prop_assert_eq!(written.contains_key("handle"), item.handles().any(|handle| !handle.is_empty()));
        prop_assert_eq!(written.contains_key("expires_at"), matches!(item, Item::Event(_) | Item::Stray(_)));
        // A key that can't be one would make the whole write fail.
        for key in ["open", "handle"] {
            prop_assert!(attributes::text(&written, key).is_none_or(|key| (1..=2048).contains(&key.len())));
        }
        prop_assert_eq!(attributes::read("table", written).unwrap(), item);
    }
}

#[test]
fn what_is_written_is_what_a_person_reads() {
    let mut job = sample::full_job("0123", Rev("r1".to_owned()));
    job.state = State::Unclear;
    let written = attributes::of(&Item::Job(job)).unwrap();
    let text = |name: &str| written[name].as_s().unwrap().as_str();
    assert_eq!((text("pk"), text("kind"), text("rev"), text("state")), ("job/0123", "job", "r1", "unclear"));
    assert_eq!(text("handle"), "v1_ünï-日本語");
    assert_eq!(text("open"), format!("unclear#{}", attributes::shard(&ItemId("job/0123".to_owned()))));
    assert_eq!(written["due"], AttributeValue::N(minute(2).0.to_string()));
    let handles = written["handles"].as_l().unwrap();
    assert_eq!(handles[1].as_m().unwrap()["fate"], AttributeValue::S("given_up".to_owned()));
}

#[test]
fn only_what_is_listed_is_in_the_index_and_what_is_never_due_stands_behind_every_time() {
    let rev = || Rev("r".to_owned());
    let due = |item: Item| attributes::of(&item).unwrap().get("due").map(|due| due.as_n().unwrap().clone());
    for state in State::OF_JOBS {
        let written = due(Item::Job(sample::job_in("a", rev(), state, minute(1), Some(minute(7)))));
        assert_eq!(written, (!state.is_closed()).then(|| minute(7).0.to_string()), "{state}");
    }
    for item in [
        Item::Gate(sample::gate("everything", rev())),
        Item::BadLine(sample::bad_line(1, rev())),
        Item::DeadRow(sample::dead_row("row", rev())),
        Item::DeadGroup(sample::dead_group("missing", rev())),
    ] {
        let never: i128 = due(item).unwrap().parse().unwrap();
        assert!(never > i128::from(i64::MAX));
    }
}

#[test]
fn dynamodb_deletes_what_has_expired_and_nothing_before() {
    let written = |item: Item| attributes::of(&item).unwrap().get("expires_at").cloned();
    let at = |ms| written(Item::Stray(Stray { expires: Millis(ms), ..sample::stray("v1_a", Rev("r".to_owned())) }));
    // In whole seconds: up, since it must not go while it is of use.
    for (ms, seconds) in [(1_796_164_200_000, "1796164200"), (1_796_164_200_001, "1796164201"), (999, "1"), (0, "0")] {
        assert_eq!(at(ms), Some(AttributeValue::N(seconds.to_owned())));
    }
    let revs = TestIds::new(1);
    for item in sample::one_of_each(|| revs.rev()) {
        let expires = matches!(item.kind(), Kind::Event | Kind::Stray);
        assert_eq!(written(item.clone()).is_some(), expires, "{}", item.id());
    }
    for state in State::OF_JOBS {
        assert_eq!(written(Item::Job(sample::job_in("a", revs.rev(), state, minute(0), None))), None, "{state}");
    }
}

#[test]
fn a_shard_is_the_same_for_ever_and_shards_are_about_even() {
    let shard = |n: u32| attributes::shard(&ItemId(format!("job/{n}")));
    // Another hash would hide every item that was written before: this must never change.
    assert_eq!((0..12).map(shard).collect::<Vec<_>>(), [0, 3, 3, 2, 1, 1, 0, 2, 3, 3, 3, 3]);
    let mut sizes = [0; 4];
    (0..4000).for_each(|n| sizes[usize::from(shard(n))] += 1);
    assert!(sizes.iter().all(|size| (900..1100).contains(size)), "{sizes:?}");
}

#[test]
fn long_handles_are_found_by_their_digest() {
    let key = |handle: &str| attributes::handle_key(handle);
    assert_eq!(key(""), None);
    assert_eq!(key("v1_日本").as_deref(), Some("v1_日本"));
    let long = "x".repeat(3000);
    assert!(key(&long).unwrap().starts_with("sha256:") && key(&long) != key(&format!("{long}x")));
}

#[test]
fn what_cannot_be_read_is_named() {
    let revs = TestIds::new(1);
    let good = attributes::of(&Item::Job(sample::full_job("a", revs.rev()))).unwrap();
    let broken = |change: fn(&mut Attributes)| {
        let mut attributes = good.clone();
        change(&mut attributes);
        match attributes::read("some-table", attributes) {
            Err(LedgerError::NeedsPerson(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let whys = [
        broken(|item| drop(item.remove("rev"))),
        broken(|item| drop(item.insert("attempts".to_owned(), AttributeValue::S("one".to_owned())))),
        broken(|item| drop(item.insert("attempts".to_owned(), AttributeValue::N("1.5".to_owned())))),
        broken(|item| drop(item.insert("kind".to_owned(), AttributeValue::S("run".to_owned())))),
        broken(|item| drop(item.insert("key".to_owned(), AttributeValue::S("b".to_owned())))),
    ];
    for why in whys {
        assert!(why.contains("job/a") && why.contains("some-table") && why.contains("mend"), "{why}");
    }
    assert!(broken(|item| drop(item.remove("pk"))).contains("without an id"));
}
