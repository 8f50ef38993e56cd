//! The line of a job read again by its place, with what a replay changed of it.

use std::sync::Arc;

use super::engine::{Engine, Trouble};
use super::lines::{RawLine, Reading, object_name, read_line, usable};
use crate::domain::changes::Changes;
use crate::domain::extract::Expectation;
use crate::domain::intake::Intake;
use crate::domain::job::Job;
use crate::domain::line::{Header, JobLine, LINE_BYTES};

impl Engine {
    /// The header under which the lines of an intake are read: its own, and the mode that it was handed in with.
    ///
    /// # Errors
    /// As [`Engine::header`].
    pub async fn header_of(&self, intake: &Intake) -> Result<Arc<Header>, Trouble> {
        let header = self.header(&intake.sha256).await?;
        Ok(match (header.mode, intake.mode) {
            (None, Some(mode)) => Arc::new(Header { mode: Some(mode), ..Header::clone(&header) }),
            _ => header,
        })
    }

    /// Why nothing of an intake can be sent again, if so: its object is gone.
    ///
    /// # Errors
    /// Trouble with the objects.
    pub async fn lost_intake(&self, sha256: &str) -> Result<Option<String>, Trouble> {
        let name = object_name(sha256);
        let is_there = self.objects.size(&name).await?.is_some();
        let why = || {
            format!(
                "its file is not kept any more (there is no object {name}): hand the same file in again, or import it \
                 again if it was imported, and then replay this"
            )
        };
        Ok((!is_there).then(why))
    }

    /// The line of a job, read again, with the fields that a replay put in the place of its own, and what its answer
    /// must be. The model is the job's.
    ///
    /// # Errors
    /// Trouble with the object; bytes that were a job and are none any more, and changes that can't be made, need a person.
    pub async fn line_of(&self, job: &Job) -> Result<(Box<JobLine>, Expectation), Trouble> {
        let input = &job.input;
        let header = self.header(&input.intake).await?;
        // The line was read in this mode before: it names it, or its header does, or whoever handed the file in did.
        let header = Header { mode: Some(job.mode), ..Header::clone(&header) };
        let name = object_name(&input.intake);
        let bytes = self.objects.read(&name, input.offset..input.offset + input.length).await?;
        let raw = RawLine {
            line: input.line,
            offset: input.offset,
            length: input.length,
            end: input.offset + input.length,
            bytes,
            is_too_long: input.length > LINE_BYTES,
        };
        let (line, expectation) = match read_line(&raw, &header) {
            Reading::Job(line, expectation) => (line, expectation),
            other => {
                let why = match other {
                    Reading::Bad(error) => error.message,
                    _ => "nothing is there".to_owned(),
                };
                return Err(Trouble::NeedsPerson(format!(
                    "{name} line {}: it was a job and can't be read any more ({why}); was the object changed?",
                    input.line
                )));
            }
        };
        match &job.changes {
            None => Ok((line, expectation)),
            Some(object) => {
                let changed = self.change_line(&line, object).await?;
                changed.map_err(|why| {
                    Trouble::NeedsPerson(format!(
                        "the job {} can't be sent with the changes in {object}: {why}; replay it with others, or discard it",
                        job.key
                    ))
                })
            }
        }
    }

    /// A line with the changes in an object, or why they can't be made.
    async fn change_line(
        &self,
        line: &JobLine,
        object: &str,
    ) -> Result<Result<(Box<JobLine>, Expectation), String>, Trouble> {
        let bytes = self.objects.get(object).await?;
        let changes: Changes = match serde_json::from_slice(&bytes) {
            Ok(changes) => changes,
            Err(error) => return Ok(Err(format!("they can't be read: {error}"))),
        };
        let changed = line.changed(&changes).and_then(|line| Ok((usable(&line)?, line)));
        Ok(changed.map(|(expectation, line)| (Box::new(line), expectation)).map_err(|error| error.message))
    }
}
