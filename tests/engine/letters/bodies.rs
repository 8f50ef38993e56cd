//! What a message says.

use gleaner::app::letters::INLINE;
use gleaner::domain::item::Item;
use gleaner::domain::job::Job;
use serde_json::{Value, json};

use super::with_dead_letters;
use crate::agree::dead_letters;
use crate::books::row;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{World, text};

/// The bytes that a message points at.
fn pointed_at(world: &World, at: &Value) -> Vec<u8> {
    let bytes = std::fs::read(world.data().join(at["object"].as_str().unwrap())).unwrap();
    let number = |name: &str| usize::try_from(at[name].as_u64().unwrap()).unwrap();
    bytes[number("offset")..][..number("length")].to_vec()
}

/// A job's line as it was handed in.
fn own_line(world: &World, job: &Job) -> Value {
    let name = format!("intakes/{}.jsonl", job.input.intake);
    let at = json!({"object": name, "offset": job.input.offset, "length": job.input.length});
    serde_json::from_slice(&pointed_at(world, &at)).unwrap()
}

#[tokio::test]
async fn a_job_carries_its_line_and_a_row_its_own() {
    let world = with_dead_letters(4).await;
    let told = world.agree().await;
    for (id, item) in dead_letters(&world.engine).await {
        let said = &told[&id];
        match item {
            Item::Job(job) => {
                assert_eq!((&said["id"], &said["run"], &said["key"]), (&json!(job.key), &Value::Null, &Value::Null));
                assert_eq!(said["payload"], own_line(&world, &job));
            }
            Item::DeadRow(row) => {
                assert_eq!(said["payload"]["key"], row.key);
                assert!(said["payload"]["request"]["contents"].is_array());
                assert_eq!(said["payload"].as_object().unwrap().len(), 2, "the line that was handed in");
            }
            Item::BadLine(_) => assert_eq!(said["payload"], super::BAD.trim_end_matches('\n')),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_long_payload_is_pointed_at_and_a_short_one_isnt() {
    let world = World::new(&["blocked=1"]).await;
    let inputs = [
        "a".repeat(1_000),
        "a".repeat(INLINE - 30),
        "a".repeat(INLINE + 1),
        "長".repeat(INLINE / 6 - 10),
        "長".repeat(INLINE / 6 + 10),
    ];
    let carried = [true, true, false, true, false];
    let file: String = inputs.iter().map(|input| text(input)).collect();
    let intake = world.land(file).await;
    world.until_over(&intake).await;
    let told = world.agree().await;
    assert_eq!(told.len(), 5);
    for (input, carried) in inputs.iter().zip(carried) {
        let own: Vec<&Value> = told
            .values()
            .filter(|said| match said["payload"].is_null() {
                false => said["payload"]["input"] == **input,
                true => {
                    let line: Value = serde_json::from_slice(&pointed_at(&world, &said["payload_at"])).unwrap();
                    line["input"] == **input
                }
            })
            .collect();
        assert_eq!((own.len(), !own[0]["payload"].is_null()), (1, carried), "{} bytes", input.len());
    }
}

#[tokio::test]
async fn a_long_row_and_a_bad_line_that_is_no_text_are_pointed_at() {
    let world = World::with(&["row-safety=1"], Default::default(), in_parts_of(20)).await;
    let long = row("long", &"b".repeat(INLINE));
    let mut file = (long.clone() + &row("short", "s")).into_bytes();
    file.extend_from_slice(b"\xff\xfe bad \"line\"\n");
    let run = land_run(&world, &file).await;
    world.until_over(&run).await;
    let told = world.agree().await;
    assert_eq!(told.len(), 3);
    for said in told.values() {
        match said["key"].as_str() {
            Some("long") => {
                let dead: Value = serde_json::from_slice(&pointed_at(&world, &said["payload_at"])).unwrap();
                let line: Value = serde_json::from_str(&long).unwrap();
                assert_eq!((&dead["key"], &dead["request"]), (&line["key"], &line["request"]));
            }
            Some("short") => assert_eq!(said["payload"], serde_json::from_str::<Value>(&row("short", "s")).unwrap()),
            _ => {
                assert_eq!(said["payload"], "\u{fffd}\u{fffd} bad \"line\"");
                assert_eq!(pointed_at(&world, &said["payload_at"]), b"\xff\xfe bad \"line\"");
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_does_not_stop_the_message() {
    let world = with_dead_letters(1).await;
    let folder = world.data().join("intakes");
    for name in world.objects("intakes") {
        std::fs::write(folder.join(name), "cut").unwrap();
    }
    world.advance(crate::world::HOUR * 241);
    world.tick().await;
    let messages = crate::agree::all_messages(&world.engine).await;
    let said: Vec<Value> = messages.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect();
    assert_eq!(said.len(), 2);
    for said in said {
        assert_eq!(said["number"], 2);
        assert!(said["payload"].is_null() && said["payload_at"]["object"].is_string(), "{said}");
        assert!(said["payload_trouble"].as_str().unwrap().contains("was the object changed?"), "{said}");
    }
}
