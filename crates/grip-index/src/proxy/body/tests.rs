use futures_util::StreamExt as _;
use grip_tasks::TaskGroup;

use super::*;

async fn read(mut body: Body) -> (usize, Option<io::Error>) {
    let mut bytes = 0;
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => bytes += chunk.len(),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

fn write(kind: &'static str, work: impl FnOnce(Writer) + Send + 'static) -> Body {
    let (writer, body) = channel(Duration::from_secs(60));
    drop(TaskGroup::new("test").spawn_blocking(kind, move || work(writer)));
    body
}

#[tokio::test]
async fn what_was_written_is_read_to_its_end() {
    let body = write("whole", |mut writer| {
        let written = (0..100).try_for_each(|_| writer.write_all(&[7; 10_000]));
        writer.end(written);
    });
    let (bytes, error) = read(body).await;
    assert_eq!(bytes, 1_000_000);
    assert!(error.is_none());
}

#[tokio::test]
async fn a_failure_is_the_last_thing_that_is_read() {
    let body = write("failing", |mut writer| {
        let _ = writer.write_all(&[7; 100_000]);
        writer.end(Err(io::Error::other("no more")));
    });
    let (bytes, error) = read(body).await;
    assert!(bytes <= 100_000);
    assert_eq!(error.unwrap().to_string(), "no more");
}

#[tokio::test]
async fn a_writer_that_vanishes_leaves_no_whole_zip_behind() {
    let body = write("vanishing", |mut writer| {
        let _ = writer.write_all(&[7; 100_000]);
    });
    let (_, error) = read(body).await;
    assert_eq!(error.unwrap().to_string(), "the zip was cut short");
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_writing() {
    let (mut writer, body) = channel(Duration::from_secs(60));
    drop(body);
    assert!(writer.is_abandoned());
    let group = TaskGroup::new("test");
    let writing = group.spawn_blocking("writer", move || writer.write_all(&[7; 1 << 20]));
    let error = writing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_reader_that_reads_nothing_is_given_up_after_a_few_chunks() {
    let (mut writer, body) = channel(Duration::from_millis(20));
    let group = TaskGroup::new("test");
    let writing = group.spawn_blocking("writer", move || {
        let mut chunks = 0;
        while writer.write_all(&[7; CHUNK_BYTES]).is_ok() {
            chunks += 1;
        }
        chunks
    });
    assert_eq!(writing.await.unwrap(), QUEUED);
    drop(body);
}
