//! The texts of `--help`.

use std::fmt::Write as _;

use crate::app::settings::NAMES;
use crate::simulator::faults::{Fault, Stay};

/// Where the text beside a setting begins.
const SETTING: usize = 27;

/// How wide help may be.
const WIDTH: usize = 80;

/// Behind `gleaner -h`.
pub const SHORT: &str = "\
`gleaner --help` tells what a file of jobs looks like, where results land, and
all settings. `gleaner help COMMAND` has examples.";

const FILE_OF_JOBS: &str = r#"A FILE OF JOBS has one JSON object a line:
  {"input": "Summarise in one sentence: ..."}
  {"input": "要約してください: ...", "model": "gemini-pro-latest"}
  {"input": "Tag this: ...", "response_format": {"type": "text",
   "mime_type": "application/json", "schema": {...}}}      (all on one line)
Every documented field of Gemini's create call is sent as it is. A field that
Gemini doesn't know is kept, makes the line another job, and is not sent.
"idempotency_key" names a job yourself; else its content names it, so that the
same line is the same job for ever and is never sent twice. "expect" says what
an answer must be. A first line may set options for all:
  {"gleaner": {"model": "...", "max_attempts": 4, "deadline": "72h"}}
The options are "mode", "model", "max_attempts", "deadline", "expect", and
"request" (fields for every line).

PLAIN CALLS are answered at once, at the full price: generateContent, line by
line, tried 4 times where that helps. `gleaner run FILE --mode call`, a first
line {"gleaner": {"mode": "call"}}, or "mode": "call" in a line. Such a line has
"input" (a text, or contents) or "contents", and generateContent's other fields:
  {"mode": "call", "input": "...", "generationConfig": {"maxOutputTokens": 99}}

A BATCH RUN goes out by Gemini's Batch API, at half the price, and takes up to a
day or two. Its file has one row a line, each with a key of its own:
  {"key": "a-1", "request": {"contents": [{"parts": [{"text": "..."}]}]}}
  gleaner run rows.jsonl --mode batch
or with a first line {"gleaner": {"mode": "batch", "model": "..."}}. Rows go out
in parts, and what fails for a passing reason goes out again, 4 times at most.

TRY IT (no key, no account, no cost):
  gleaner run events/jobs.jsonl --simulate

RUN YOUR OWN:
  export GEMINI_API_KEY=...
  gleaner --data work run prompts.jsonl

ON AWS: --stack NAME works on a deployed stack in place of a data folder, with
the stack's own settings. `run` hands the file over and watches; the stack does
the work, whatever becomes of this machine.
  gleaner --stack gleaner run prompts.jsonl

RESULTS are files in the data folder: results/<key>.json, each with "value",
"usage", "attempts", "handle" and "response", which is Gemini's own answer.
Those of a batch run are lines {"key","value","usage","attempt"} of the files
results/<run>/*.jsonl; `gleaner results RUN -o FILE` makes one file of them.
What can't be answered is a dead letter: `gleaner dead`, `gleaner show ID`,
`gleaner row RUN KEY`.

EXIT CODES
    0  every line has its result, or was discarded by a person
    3  every line has ended, some as dead letters
    2  bad use: nothing was begun
    1  stopped by something that a person must mend; run again afterwards
  130  stopped by Ctrl-C; the same command goes on

"#;

/// Behind `gleaner --help`.
pub fn long() -> String {
    let mut help = FILE_OF_JOBS.to_owned();
    help.push_str("SETTINGS are environment variables (in brackets: where they are not set).\n");
    help.push_str("Durations are written 250ms, 10s, 15m, 72h.\n");
    for (name, default, about) in NAMES {
        let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        hang(&mut help, name, SETTING, &format!("{about}{default}"));
    }
    help.push_str("\nWith --simulate the waits are short where they are not set:\n");
    for (name, default) in super::open::SHORT_WAITS {
        hang(&mut help, name, SETTING, default);
    }
    help.trim_end().to_owned()
}

/// Behind `gleaner help import-seed`.
pub const IMPORT_SEED: &str = "\
Reads the SQLite files of the three seed scripts: a table `jobs` (background
interactions), `rows` (rows of a batch) or `dead_letter` (plain calls), one, two
or all of them in one file. End the script first. The file is copied and never
written, also with a -wal beside it. Keys, states and payloads stay, nothing is
submitted, and twice is the same as once, also after a kill in the middle.

  jobs         submitted and done ones are collected by the next tick, with the
               API key that is set. consumed ones stay closed, their results
               where they are. failed ones are parked as import:failed. Those
               that are reserved and have no handle are parked as
               import:no_payload until a file with the same line is handed in
               (`gleaner run FILE`): then they are sent. A line of any other
               job of these is not sent again; the job is judged by it.
  rows         become a batch run: results, dead rows, and the rest, which is
               held, since it may be in a batch that is under way. When it is
               not, `gleaner resume RUN` sends it. Its parts are in the order
               of attempts used; rows keep their attempts.
  dead_letter  become jobs of mode call with their payloads, parked or
               recovered as they were. An id that is no key (a-z 0-9 _ -, 63 at
               most) gets one; `gleaner show` has both.

What can't be taken over (an unknown status, table or column, a key that can't
be one) is told with its table and key, and the exit code is 3; all else is.

Examples:
  gleaner import-seed reclaim_ledger.db
  gleaner --json import-seed reclaim_ledger.db | jq .refused
  gleaner --stack gleaner import-seed reclaim_ledger.db";

/// Behind `gleaner help simulator`.
pub fn simulator() -> String {
    let mut help = SIMULATOR.to_owned();
    for (stay, heading) in [
        (Stay::Passing, "FAULTS that pass: another try of the same job is drawn anew.\n"),
        (Stay::Lasting, "\nFAULTS that last: every try of the same job meets them.\n"),
    ] {
        help.push_str(heading);
        for fault in Fault::ALL.iter().filter(|fault| fault.stay() == stay) {
            hang(&mut help, fault.name(), 23, fault.about());
        }
    }
    help.trim_end().to_owned()
}

/// A name, and what it is beside it, wrapped.
fn hang(help: &mut String, name: &str, column: usize, about: &str) {
    let mut line = format!("  {name:<0$}", column - 2);
    for word in about.split_whitespace() {
        let length = line.chars().count() + word.chars().count() + 1;
        if length > WIDTH && line.chars().count() > column {
            push_line(help, &line);
            line = " ".repeat(column);
        }
        if line.chars().count() > column || !line.ends_with(' ') {
            line.push(' ');
        }
        line.push_str(word);
    }
    push_line(help, &line);
}

fn push_line(help: &mut String, line: &str) {
    if writeln!(help, "{}", line.trim_end()).is_err() {
        // Writing to a String can't fail.
    }
}

/// Behind `gleaner help run`.
pub const RUN: &str = "\
Safe to interrupt, to repeat, and to start twice at once: what was sent is
never sent again, and the next run of the same file goes on.

Examples:
  gleaner run prompts.jsonl
  gleaner run rows.jsonl --mode batch
  gleaner run prompts.jsonl --on-result './store.sh'
  gleaner run events/jobs.jsonl --simulate
  gleaner run events/jobs.jsonl --simulate --fault passing=0.2 --seed 7
  gleaner --json run prompts.jsonl | jq .consumed
  gleaner --stack gleaner run prompts.jsonl   (the stack does it, this watches)

--on-result gives each result to the command on standard input, its key in
GLEANER_ID and the path of its file in GLEANER_RESULT. A job is done only when
the command ends with 0; after five failures it is a dead letter, and its result
stays. After a crash one result may come twice, always with the same key.

With --mode call each line is a plain generateContent call, answered at once.

With --mode batch the file has rows, {\"key\": \"...\", \"request\": {...}}, which
go out in parts, attempt after attempt. --json ends with run, rows, succeeded,
dead and attempts beside the other counts.

A data folder holds simulated work or real work, never both.

Exit codes: 0 every line has its result, or was discarded by a person (`gleaner
cancel`); 3 some are dead letters; 2 bad use; 1 a person must mend something;
130 stopped by Ctrl-C. `gleaner --help` tells the rest.";

/// Behind `gleaner help submit`.
pub const SUBMIT: &str = "\
The jobs wait in the data folder. `gleaner tick`, again and again, or
`gleaner run FILE` does the rest. No API key is needed.

Examples:
  gleaner submit monday.jsonl tuesday.jsonl
  gleaner submit rows.jsonl --mode batch";

/// Behind `gleaner help tick`.
pub const TICK: &str = "\
Made for cron, every minute: it does what is due and ends, after about 50
seconds at the latest. Two at once share the work.

Examples:
  gleaner tick
  gleaner tick --on-result './store.sh'     (as with `gleaner run`)

Exit codes: 0, 2 bad use, 1 a person must mend something (told by each tick as
long as it lasts), 130 Ctrl-C.";

/// Behind `gleaner help status`.
pub const STATUS: &str = "\
Examples:
  gleaner status
  gleaner --json status | jq .states.parked.count

The states of a job:
  reserving   intent is written; the create call is under way
  unclear     Gemini may or may not have accepted it; waits, then sent again
  submitted   it runs at Gemini
  done        Gemini has finished; the result is being stored and handed on
  consumed    its result is stored and handed on
  retryable   failed for a passing reason, or (with 0 attempts) waits for its
              gate to open; tried when its time comes
  given_up    lost, cancelled or too late at Gemini; its next attempt is due
  parked      a dead letter
  recovered   a dead letter that got its result after all
  discarded   given up by a person
Lines that wait are no jobs yet; they become jobs when they are taken up. Of a
batch run, each attempt of a part is a job. Runs that are not over are listed
with their rows, and with what is out at Gemini (--json: runs).";

/// Behind `gleaner help show`.
pub const SHOW: &str = "\
A job is named by its whole key or by any id that Gemini gave it; a file by its
sha256 or the first six digits of it or more, or by its name; a bad line and
dead rows as `dead` prints them.

Examples:
  gleaner show 3f2a9c0d41e7b6885a0c9d1e2f3a4b5c
  gleaner show 9f86d0
  gleaner show line/9f86d081884c/3
  gleaner show part/9f86d0/2                     (the second part of a run)
  gleaner show rows/9f86d0/permanent:400         (many dead rows of one class)
  gleaner show batches/abc                       (one attempt, by its batch)";

/// Behind `gleaner help row`.
pub const ROW: &str = "\
Examples:
  gleaner row rows.jsonl a-1
  gleaner row 9f86d081884c a-1
  gleaner --json row 9f86d081884c a-1 | jq .result.value

The states of a row:
  waiting     for its first attempt or its next one
  under_way   its attempt is out
  parked      its attempt is a dead letter, and it with it
  succeeded   it has its result
  dead        it will not be tried again by itself
  recovered   it was dead, and has its result after all
  discarded   given up by a person
  bad_line    no row could be made of its line, as when its key came twice

What became of it in an attempt: succeeded; died (for good); failed (and may be
tried again); no outcome (the whole attempt was lost, expired or refused); open.

Exit codes: 0; 2 there is no such run or row.";

/// Behind `gleaner help results`.
pub const RESULTS: &str = "\
One line a row, {\"key\",\"value\",\"usage\",\"attempt\"}, in the order of the rows
that were handed in. Rows without a result are left out; how many there are is
told on standard error. With --with-dead each of them comes in its place as
  {\"key\": \"a-7\", \"error\": {\"class\": \"blocked:SAFETY\", \"message\": \"...\",
   \"attempts\": 1}}                                          (all on one line)
so that every row of a run that is over has its line. Bad lines are no rows.

Examples:
  gleaner results rows.jsonl -o answers.jsonl
  gleaner results 9f86d081884c --with-dead | jq -c 'select(.error)'

Exit codes: 0 every row is settled, whatever became of it; 1 rows are still open
(the others are written all the same), or a person must mend something; 2 there
is no such run.";

/// Behind `gleaner help dead`.
pub const DEAD: &str = "\
Examples:
  gleaner dead
  gleaner dead --class blocked
  gleaner dead --run rows.jsonl
  gleaner dead --mode interaction --older-than 7d
  gleaner --json dead --limit 1000 | jq -r '.dead[].id'

Classes, and what they mean:
  permanent:…       Gemini refuses it, and would again (permanent:400)
  blocked:…         Gemini's filters stopped it (blocked:SAFETY)
  truncated         a limit cut the answer off
  requires_action   it waits for a function's result, which nobody gives
  extract:…         answered, but not as asked: extract:json, extract:schema
  exhausted:…       failed on every attempt (exhausted:503, exhausted:deadline)
  unclear           Gemini may have accepted it, and GLEANER_ON_UNCLEAR is park
  no_answer         sent, and no look at it was answered any more
  internal:consume  the result could not be stored or handed on; one that was
                    stored is in results/
  internal:too_long Gemini's answer is longer than what is read
  missing           Gemini's output has no line for the row
  bad_line:…        no job can be made of the line: json, not_an_object, utf8,
                    duplicate_name, number, field, row, header, key_taken or
                    too_long
More than 1,000 dead rows of one class in a run come as one entry, and the run
waits for a person: `gleaner resume RUN`.

To try one anew: gleaner replay. To settle one for good: gleaner discard. A bad
line is handed in again when it is mended: a changed line is another job.";

/// Behind `gleaner help replay`.
pub const REPLAY: &str = "\
Without --apply it tells which ones would be replayed, oldest first, and changes
nothing. With it each gets as many further attempts as it had at first; what was
sent for it before is looked at once more, and taken if it has finished, before
anything is paid for again. What ends at once is told; the rest ends as other
work does, by `gleaner tick` or `gleaner run`, and recovers or is a dead letter
again. A result that could not be handed on is handed on anew, and nothing is
sent for it.

Examples:
  gleaner replay
  gleaner replay --class exhausted:503 --limit 100 --reason 'over' --apply
  gleaner replay 3f2a9c0d41e7 --reason 'more room' --apply \\
    --request '{\"generation_config\": {\"max_output_tokens\": 8192}}'
  gleaner replay --class blocked --model gemini-pro-latest \\
    --reason 'the other model takes it' --apply
  gleaner replay --run rows.jsonl --rows-by call --reason 'urgent' --apply
  gleaner --json replay | jq -r '.items[] | [.id, .outcome, .why] | @tsv'

What --model and --request change stays changed for this job, until another
replay changes the same again. The results keep the job's key.

One dead letter that stands for many rows, of one run and class, counts as one
of --limit, and all of its rows go out again: \"rows\" tells how many.

Bad lines can't be replayed: hand in a corrected line. Nor can what was imported
without its line, or with a payload that can't be sent: hand a line in.

Exit codes: 0; 3 some are dead letters again, or were left; 2 bad use: nothing
was begun; 1 a person must mend something; 130 stopped by Ctrl-C: the rest is
left as it was.";

/// Behind `gleaner help discard`.
pub const DISCARD: &str = "\
Nobody waits for them any more: they are closed, with the reason. Those that are
named are discarded at once; by a filter only with --apply, and else it tells
which ones it would be. Nothing is cancelled at Gemini by it: where something of
one may still run there it says so, and `gleaner cancel ID` stops it.

Examples:
  gleaner discard 3f2a9c0d41e7 --reason 'nobody needs it'
  gleaner discard --class bad_line
  gleaner discard --class bad_line --limit 500 --reason 'mended' --apply

Exit codes: 0; 3 some were left; 2 bad use: nothing was begun.";

/// Behind `gleaner help summary`.
pub const SUMMARY: &str = "\
Made to be read once a day: a stack does so by itself, and sends it to who has
subscribed to its topic. It costs what is parked and what is open, not what is
over, and changes nothing.

Examples:
  gleaner summary
  gleaner --stack gleaner summary
  gleaner --json summary | jq '.classes[] | {class, count}'

--json prints one object:
  at                  when it was made
  clean               true: no dead letter, no run that waits for a person, no
                      possible duplicate
  dead_letters        how many `gleaner dead` lists
  parked              the jobs, rows and lines that they are of
  classes             [{class, count, oldest, newest}], largest first; count is
                      of jobs, rows and lines
  modes               the same by mode: {\"interaction\", \"call\", \"batch\", \"line\"}
  files               [{file, sha256, run, count}], the 20 largest
  oldest, newest      since when they are dead letters, or null
  oldest_age_s        the age of the oldest in seconds, or null
  expiries            [{what, at, days, free_tier_at?, id, name?, items}]: what
                      is deleted next of each kind: the \"message\" of a dead
                      letter (by SQS, 14 days after it was sent), an
                      \"interaction\" (by Gemini, 55 days after it was made, on
                      the free tier 1), a \"batch_output\" (42 days), an
                      \"input_file\" (48 hours).
                      items: how many of the kind are still there
  days_until_expiry   days until the first of them, or null
  unsent_messages     dead letters whose message is still to be sent
  no_payload          imported jobs that wait for their line
  possible_duplicates of dead letters and open jobs
  held_runs           [{run, file, class, message, since}], runs that wait for a
                      person

Exit code: 0, whatever there is to say.";

/// Behind `gleaner help pause`.
pub const PAUSE: &str = "\
It works within a second on runs under way, and lasts until `gleaner resume`.

Example:
  gleaner pause --reason 'the budget of November is used up'";

/// Behind `gleaner help resume`.
pub const RESUME: &str = "\
A batch run of which more than 1,000 rows died of one class sends no more parts
until somebody has looked: `gleaner resume RUN` sends the rest all the same, and
`gleaner cancel RUN` gives it up.

Examples:
  gleaner resume
  gleaner resume rows.jsonl";

/// Behind `gleaner help cancel`.
pub const CANCEL: &str = "\
What has finished at Gemini already is still collected, since it is paid for.
Cancelling again tries again what could not be stopped at Gemini.

Examples:
  gleaner cancel 3f2a9c0d41e7b6885a0c9d1e2f3a4b5c --reason 'wrong prompt'
  gleaner cancel 9f86d0                  (a file: its jobs, its lines that wait)
  gleaner cancel rows.jsonl              (a batch run: every row that is open)
  gleaner cancel line/9f86d081884c/3     (a bad line that nobody waits for)

Exit codes: 0, 2 bad use, 1 something may still run at Gemini.";

/// Behind `gleaner help webhook`.
pub const WEBHOOK: &str = "\
Gemini can call when a batch or an interaction has ended. Then results come
within seconds, and an interaction whose create answer was lost is found again.
Events are signed; what they say is asked for at Gemini before it counts, and
polling goes on beside them, so that a lost event loses nothing.

There are two ways. A registered webhook gets the events of everything in the
API key's project, signed with a secret that Gemini tells once: it is kept in
webhook-secrets.json of the data folder, which its owner alone can read, or with
--stack in the stack's secret. With GLEANER_WEBHOOK_URL set, each job carries
the URL itself, and its event is signed with Gemini's own public keys; then
nothing needs to be registered.

Examples:
  gleaner --stack gleaner webhook register      (to the stack's own URL)
  gleaner --stack gleaner webhook ping
  gleaner webhook serve --port 8081             (see its help)

`gleaner webhook COMMAND --help` has more.";

/// Behind `gleaner help webhook register`.
pub const WEBHOOK_REGISTER: &str = "\
A URL that is registered already is not registered twice: a webhook that was
disabled is enabled again, and one whose secret is not kept here is told. If the
secret of a new one can't be kept, it is deleted again.

Examples:
  gleaner --stack gleaner webhook register
  gleaner webhook register https://example.com/webhook --name laptop
  gleaner webhook register https://example.com/webhook \\
    --event batch.succeeded --event batch.failed

Exit codes: 0 it is registered, enabled, and its secret is kept; 1 a person must
do something, which is told; 2 bad use.";

/// Behind `gleaner help webhook list`.
pub const WEBHOOK_LIST: &str = "\
It tells how many secrets of each are kept here: with none its events are
refused; two for a day after `webhook rotate`.

Examples:
  gleaner webhook list
  gleaner --json --stack gleaner webhook list | jq '.webhooks[].state'";

/// Behind `gleaner help webhook ping`.
pub const WEBHOOK_PING: &str = "\
Gemini sends the event by itself, some moments later. Whether it came is told by
`gleaner webhook serve`, or by the log of the stack's webhook function.

Examples:
  gleaner webhook ping
  gleaner --stack gleaner webhook ping";

/// Behind `gleaner help webhook rotate`.
pub const WEBHOOK_ROTATE: &str = "\
For 24 hours Gemini signs with the old secret and the new one, and both are
taken, so that no event is refused. With --now the old one is refused at once on
this machine, and within a minute on a stack; events that come before the new
one is known there are sent again by Gemini.

Examples:
  gleaner webhook rotate
  gleaner --stack gleaner webhook rotate
  gleaner webhook rotate ID --now               (somebody else knows the secret)

Exit codes: 0; 1 the new secret could not be had or kept: rotate again; 2 bad
use.";

/// Behind `gleaner help webhook delete`.
pub const WEBHOOK_DELETE: &str = "\
Nothing is lost by it: results are then found by polling.

Examples:
  gleaner webhook delete ID
  gleaner --stack gleaner webhook delete ID";

/// Behind `gleaner help webhook serve`.
pub const WEBHOOK_SERVE: &str = "\
It takes events at http://127.0.0.1:N/webhook, checks them, and leaves the work
to the `gleaner run` or `gleaner tick` that has the same data folder, in another
window. It needs no API key, prints a line for each request, and ends with
Ctrl-C.

Examples:
  gleaner webhook serve --port 8081

With a tunnel to this machine (its URL ends in /webhook, as here):
  export GLEANER_WEBHOOK_URL=https://my-tunnel.example/webhook
  gleaner webhook serve --port 8081
  gleaner run prompts.jsonl                     (in another window)
or, for a registered webhook, without that setting:
  gleaner webhook register https://my-tunnel.example/webhook

With a simulator in place of Gemini, each in a window of its own, with
  export GEMINI_BASE_URL=http://127.0.0.1:8080 GEMINI_API_KEY=any
  export GLEANER_WEBHOOK_URL=http://127.0.0.1:8081/webhook GLEANER_DATA=try
in all of them (--polls 0: its work ends without being looked at):
  gleaner simulator --port 8080 --polls 0
  gleaner webhook serve --port 8081
  gleaner run events/jobs.jsonl
Folders of `run --simulate` get no events: that simulator lives in the command.

Exit codes: 0 Ctrl-C; 1 the port or the folder can't be had; 2 bad use.";

const SIMULATOR: &str = "\
It speaks Gemini's interactions, batches, files, webhooks and generateContent
under /v1 and /v1beta, takes any API key, and prints its address when it is
ready. An answer is a function of its input. GET /simulator/log tells what it
accepted, /simulator/rows the rows of batches, /simulator/events what webhooks
were sent, /simulator/stats counts, GET and PUT /simulator/faults show and
change the faults. With --journal, files lie beside it in FILE.files. Ctrl-C
ends it.

EVENTS are sent when work ends: to the addresses in the request's own
webhook_config, else to the registered webhooks that want them. With --polls 0
work ends by --latency alone, without anybody's looks. Only addresses on this
machine are sent any: 127.0.0.1, ::1, localhost and names below it. What is not
answered with 2xx is sent again, later and later, for 24 hours. Webhooks and
events that wait are not in the journal: after a restart register anew, and ask
for the results of earlier work. The keys that prove an event are at
/.well-known/jwks.json. Secrets and all keys but the RSA one are made from
--seed: they prove nothing to anybody but a test.

Examples:
  gleaner simulator --port 8080
  GEMINI_BASE_URL=http://127.0.0.1:8080 GEMINI_API_KEY=any \\
    GLEANER_POLL_MIN=100ms gleaner --data try run FILE
  gleaner simulator --port 0 --fault create-drop=0.1 get-503=0.2 --seed 7

RATES are shares from 0 to 1. passing=0.2 gives 20 % to all passing faults
together, at each kind of occasion.

";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::args::Args;

    #[test]
    fn all_help_fits() {
        let mut program = Args::command();
        program.build();
        let mut texts = vec![program.render_help().to_string(), program.render_long_help().to_string()];
        for command in program.get_subcommands_mut() {
            texts.push(command.render_help().to_string());
            texts.push(command.render_long_help().to_string());
            for command in command.get_subcommands_mut() {
                texts.push(command.render_help().to_string());
                texts.push(command.render_long_help().to_string());
            }
        }
        assert!(texts.len() > 20);
        // Japanese characters are two columns wide.
        let width = |line: &&str| line.chars().map(|c| if c > '\u{2fff}' { 2 } else { 1 }).sum::<usize>();
        let too_wide: Vec<&str> =
            texts.iter().flat_map(|text| text.lines()).filter(|line| width(line) > WIDTH).collect();
        assert!(too_wide.is_empty(), "{too_wide:#?}");
    }

    #[test]
    fn every_setting_and_every_fault_is_told() {
        let (settings, faults) = (long(), simulator());
        assert!(NAMES.iter().all(|(name, ..)| settings.contains(name)));
        assert!(Fault::ALL.iter().all(|fault| faults.contains(fault.name())));
    }
}
