use std::time::UNIX_EPOCH;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Names of everything in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_a_killed_process_left_is_removed_after_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let tmp = folder.path().join(TMP);
    std::fs::create_dir(&tmp).unwrap();
    for (name, age) in [("put-old", HOUR * 2), ("put-fresh", HOUR / 2), ("put-now", Duration::ZERO), ("mine", HOUR * 9)]
    {
        let file = File::create(tmp.join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + HOUR * 100 - age).unwrap();
    }
    FolderObjects::open(folder.path(), Millis(0).plus(HOUR * 100)).unwrap();
    assert_eq!(names(&tmp), ["mine", "put-fresh", "put-now"]);
}

#[tokio::test]
async fn no_call_leaves_a_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let objects = FolderObjects::open(folder.path(), Millis(0)).unwrap();
    let once = Bytes::from_static(b"once");
    assert_eq!(objects.put("results/a.json", once.clone()).await.unwrap(), Put::Written);
    assert_eq!(objects.put("results/a.json", once.clone()).await.unwrap(), Put::AlreadyThere);
    // The object appears while another one of the same name is being written.
    let late = objects.inner.temporary().unwrap();
    assert_eq!(objects.inner.publish(late, &folder.path().join("results/a.json")).unwrap(), Put::AlreadyThere);
    // A stream that nobody waits for any more.
    let mut endless = tokio::io::repeat(7);
    assert!(futures::poll!(objects.put_stream("results/b.json", &mut endless)).is_pending());
    objects.put("../c", once.clone()).await.unwrap_err();
    objects.put("tmp/c", once).await.unwrap_err();
    assert_eq!(names(folder.path()), ["results", TMP]);
    assert_eq!(names(&folder.path().join("results")), ["a.json"]);
    // Work that was begun for the forgotten stream ends by itself, and takes its file along.
    let left = || names(&folder.path().join(TMP));
    for _ in 0..100_000 {
        if left().is_empty() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{:?} is left", left());
}

#[tokio::test]
async fn a_folder_that_is_tidied_up_meanwhile_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let objects = FolderObjects::open(folder.path(), Millis(0)).unwrap();
    let bytes = Bytes::from_static(b"here");
    objects.put("results/run/1", bytes.clone()).await.unwrap();
    std::fs::remove_dir_all(folder.path().join("results")).unwrap();
    std::fs::remove_dir_all(folder.path().join(TMP)).unwrap();
    // The first call may find out and say so; it may be made again, as it says.
    if let Err(error) = objects.put("results/run/2", bytes.clone()).await {
        assert!(matches!(error, ObjectError::Busy(_)), "{error}");
        objects.put("results/run/2", bytes.clone()).await.unwrap();
    }
    assert_eq!(objects.get("results/run/2").await.unwrap(), bytes);
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let objects = FolderObjects::open(folder.path(), Millis(0)).unwrap();
    let bytes = Bytes::from_static(b"here");
    objects.put("a/b", bytes.clone()).await.unwrap();
    for (name, word) in [("a", "is a folder"), ("a/b/c", "a file is where a folder is needed")] {
        let error = objects.put(name, bytes.clone()).await.unwrap_err();
        assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains(word)), "{error}");
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for root in [file.clone(), file.join("deeper")] {
        let error = FolderObjects::open(&root, Millis(0)).unwrap_err();
        assert!(error.to_string().contains("a file is where a folder is needed"), "{error}");
    }
}
