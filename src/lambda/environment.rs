//! What a function is told by its environment.

use std::fmt;

use thiserror::Error;

use crate::adapters::aws::stack::{DeskNames, DoorNames, Names};
use crate::app::settings::{SettingError, Settings};

/// Which of the functions a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Every minute: what is due.
    Tick,
    /// Gemini's events.
    Webhook,
    /// Dead letters, again.
    Replay,
    /// Long work from the work queue.
    Worker,
    /// Once a day: what waits.
    Summary,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tick, Self::Webhook, Self::Replay, Self::Worker, Self::Summary];

    /// Its `Handler` in the template.
    #[must_use]
    pub const fn handler(self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Webhook => "webhook",
            Self::Replay => "replay",
            Self::Worker => "worker",
            Self::Summary => "summary",
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.handler())
    }
}

/// An environment that nothing can be done with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvironmentError {
    /// `_HANDLER` names none of the functions.
    #[error("_HANDLER is {0:?}; it must be tick, webhook, replay, worker or summary")]
    NoFunction(String),
    /// A variable that the template sets is not set.
    #[error("{0} is not set: the function was not deployed by gleaner's template")]
    Missing(&'static str),
    /// A setting can't be read.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// The parts of the stack that a function works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// All of them.
    All(Names),
    /// Those that events are received with.
    Door(DoorNames),
    /// Those that what waits is told from.
    Desk(DeskNames),
}

/// What a function is told by its environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Which function it is.
    pub function: Function,
    /// The stack's name, for its metrics.
    pub stack: String,
    /// The parts of the stack that it works with.
    pub parts: Parts,
    /// Settings.
    pub settings: Settings,
    /// What AWS's own client is told.
    pub aws: aws_config::SdkConfig,
}

impl Environment {
    /// The environment of this process.
    ///
    /// # Errors
    /// What is missing or can't be read.
    pub fn of_process() -> Result<Self, EnvironmentError> {
        Self::of(&|name| std::env::var(name).ok())
    }

    /// An environment of which `variable` tells the values.
    ///
    /// # Errors
    /// What is missing or can't be read.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, EnvironmentError> {
        let value = |name: &'static str| variable(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &'static str| value(name).ok_or(EnvironmentError::Missing(name));
        let handler = value("_HANDLER").unwrap_or_default();
        let function = Function::ALL.into_iter().find(|function| function.handler() == handler);
        let function = function.ok_or(EnvironmentError::NoFunction(handler))?;
        let parts = match function {
            Function::Tick | Function::Worker | Function::Replay => Parts::All(Names {
                table: needed("GLEANER_TABLE")?,
                bucket: needed("GLEANER_BUCKET")?,
                work_queue: needed("GLEANER_WORK_QUEUE")?,
                dead_letters: needed("GLEANER_DEAD_LETTERS")?,
                gemini_secret: needed("GLEANER_GEMINI_SECRET")?,
            }),
            Function::Webhook => Parts::Door(DoorNames {
                table: needed("GLEANER_TABLE")?,
                work_queue: needed("GLEANER_WORK_QUEUE")?,
                webhook_secret: needed("GLEANER_WEBHOOK_SECRET")?,
            }),
            Function::Summary => {
                Parts::Desk(DeskNames { table: needed("GLEANER_TABLE")?, topic: value("GLEANER_SUMMARY_TOPIC") })
            }
        };
        Ok(Self {
            function,
            stack: value("GLEANER_STACK").unwrap_or_else(|| "gleaner".to_owned()),
            parts,
            settings: Settings::default().read(variable)?,
            aws: crate::adapters::aws::stack::lambda_config(variable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
        Environment::of(&|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    const TICK: [(&str, &str); 7] = [
        ("_HANDLER", "tick"),
        ("GLEANER_TABLE", "t"),
        ("GLEANER_BUCKET", "b"),
        ("GLEANER_WORK_QUEUE", "http://127.0.0.1/q"),
        ("GLEANER_DEAD_LETTERS", "http://127.0.0.1/d"),
        ("GLEANER_GEMINI_SECRET", "s"),
        ("GLEANER_WEBHOOK_SECRET", "w"),
    ];

    #[test]
    fn each_handler_is_a_function_and_nothing_else_is() {
        for function in Function::ALL {
            let mut pairs = TICK.to_vec();
            pairs[0].1 = function.handler();
            assert_eq!(environment(&pairs).unwrap().function, function);
        }
        for other in ["", "Tick", "bootstrap", "tick.handler"] {
            let refused = environment(&[("_HANDLER", other)]).unwrap_err();
            assert_eq!(refused, EnvironmentError::NoFunction(other.to_owned()));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let needed = [
            ("tick", &[1, 2, 3, 4, 5][..]),
            ("worker", &[1, 2, 3, 4, 5]),
            ("replay", &[1, 2, 3, 4, 5]),
            ("webhook", &[1, 3, 6]),
            ("summary", &[1]),
        ];
        for ((function, needed), missing) in needed.into_iter().flat_map(|case| (1..TICK.len()).map(move |n| (case, n)))
        {
            let mut pairs = TICK.to_vec();
            pairs[0].1 = function;
            let (name, _) = pairs[missing];
            pairs[missing].1 = " ";
            let read = environment(&pairs);
            match needed.contains(&missing) {
                true => assert_eq!(read.unwrap_err(), EnvironmentError::Missing(name)),
                false => assert!(read.is_ok(), "{function} needs no {name}"),
            }
        }
    }

    #[test]
    fn settings_have_the_same_names_as_elsewhere() {
        let pairs: Vec<_> = TICK.into_iter().chain([("GLEANER_CONCURRENCY", "7"), ("GLEANER_MODEL", "m")]).collect();
        let settings = environment(&pairs).unwrap().settings;
        assert_eq!((settings.concurrency, settings.model.as_str()), (7, "m"));
        let pairs: Vec<_> = TICK.into_iter().chain([("GLEANER_POLL_MIN", "soon")]).collect();
        assert!(environment(&pairs).unwrap_err().to_string().contains("GLEANER_POLL_MIN"));
    }
}
