//! Ledgers of the seed scripts, made by their own rules in Python, taken over.

mod dead;
mod jobs;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gleaner::adapters::local::seed::{Scratch, SeedFile};
use gleaner::adapters::system::SystemIds;
use gleaner::app::engine::Engine;
use gleaner::app::import::{ImportError, Imported, import};
use gleaner::app::report::every;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Job, JobKey, State};
use gleaner::ports::ids::Ids as _;
use serde_json::Value;

use super::world::World;

/// Runs the scripts' rules; what they made.
async fn made(arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/seed_ledgers.py");
    let python = std::env::var_os("GLEANER_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let mut run = tokio::process::Command::new(python);
    let output = run.arg(script).args(arguments).env("PYTHONIOENCODING", "utf-8").output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn try_import(engine: &Engine, path: &Path) -> Result<Imported, ImportError> {
    let scratch = Scratch::new(&SystemIds.token()).unwrap();
    let seed = SeedFile::open(path, scratch.path())?;
    let name = path.file_name().unwrap().to_str().unwrap();
    import(engine, Box::new(seed), name, scratch.path()).await
}

/// Takes a file over, of which everything must be taken.
async fn take_over(engine: &Engine, path: &Path) -> Imported {
    let imported = try_import(engine, path).await.unwrap();
    assert_eq!(imported.refused, []);
    imported
}

impl World {
    fn text_of(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    async fn job_of(&self, key: &str) -> Job {
        match self.engine.ledger.get(&ItemId::job(&JobKey(key.to_owned()))).await.unwrap() {
            Some(Item::Job(job)) => job,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Every item, by its id: two equal ones mean that nothing was written between.
    async fn items(&self) -> BTreeMap<String, Item> {
        let mut items = BTreeMap::new();
        for state in State::all() {
            for item in every(&self.engine, state, usize::MAX).await.unwrap() {
                items.insert(item.id().to_string(), item);
            }
        }
        items
    }
}

/// How many became that.
fn count(outcomes: &BTreeMap<&'static str, u64>, name: &str) -> u64 {
    outcomes.get(name).copied().unwrap_or(0)
}
