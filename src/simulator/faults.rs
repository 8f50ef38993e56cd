//! The ways in which the simulator can be told to fail, and the dice that decide when.
//!
//! # What a rate means
//!
//! A [`Phase`] is an occasion on which something can go wrong: one create request, one GET, one interaction's
//! outcome. On each occasion at most one fault is met, and a rate is the share of occasions that meet that
//! fault. So the rates of one phase add up to at most 1 (counted apart for passing and lasting faults), and a
//! set that doesn't is refused.
//!
//! A batch meets the same faults of creates, of first moments and of GETs as an interaction, and others of its own,
//! each drawn apart: of its course, its end, its cancel, its output as a whole, each download, each page of the
//! list, each chunk of an upload, and of each of its rows.
//!
//! A `generateContent` call meets the faults of creates, others of its own, and in its answer those of outcomes and of
//! rows' answers; a row's error codes it does not meet.
//!
//! An event meets faults of its own, drawn for each address that it goes to when its work has ended. None of them
//! changes how the work ends: whoever asks for it finds it.
//!
//! `passing=0.2` gives every passing fault an even share: 20 % of the create requests meet one of the passing
//! create faults, 20 % of the accepted interactions are hidden at first, 20 % take an unusual course, 20 % of
//! the GETs meet one of the GET faults, 20 % of the accepted interactions have a passing bad outcome, and 20 % of the
//! events meet one of theirs. Each draw is independent of the others.
//!
//! # What decides
//!
//! A hash of the seed, the phase and the digest of the input (of a batch: its display name; of a row: its
//! contents); for a passing fault also of how many times this
//! input was sent or accepted, or this interaction was asked for. Never the time, and never the order in which
//! different inputs arrive. So the same seed gives the same faults whatever the concurrency, a passing fault
//! usually goes away when the same thing is tried again, and a lasting one never does.

mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

pub use self::table::{Fault, Phase, Stay};

/// The word that stands for all passing faults together.
const PASSING: &str = "passing";

/// A set of faults that can't be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FaultError {
    /// There is no fault of that name.
    #[error("there is no fault `{0}`; there are: {PASSING}, {names}", names = names())]
    Unknown(String),
    /// Not of the form `NAME=RATE`.
    #[error("`{0}` is not of the form NAME=RATE, as in create-drop=0.2")]
    Form(String),
    /// A rate is a share.
    #[error("the rate of {0} must be between 0 and 1, not {1}")]
    Rate(String, f64),
    /// One occasion meets one fault at most, see the module's page.
    #[error("the rates of the {stay} faults of one {phase} add up to {sum:.3}; they can be 1 at most")]
    Sum {
        /// `passing` or `lasting`.
        stay: &'static str,
        /// The phase's word.
        phase: &'static str,
        /// What they add up to.
        sum: f64,
    },
}

fn names() -> String {
    Fault::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
}

/// Which faults happen how often.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Faults(BTreeMap<Fault, f64>);

impl Faults {
    /// No fault at all.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// On each occasion one of its passing faults with probability `rate`, evenly chosen. Lasting faults never.
    pub fn passing(rate: f64) -> Result<Self, FaultError> {
        Self::from_rates([(PASSING, rate)])
    }

    /// Reads `create-drop=0.2` and `passing=0.2`. A later setting replaces an earlier one of the same fault.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Self, FaultError> {
        let rates = settings.into_iter().map(|setting| {
            let form = || FaultError::Form(setting.to_owned());
            let (name, rate) = setting.split_once('=').ok_or_else(form)?;
            Ok((name.trim(), rate.trim().parse().map_err(|_| form())?))
        });
        Self::from_rates(rates.collect::<Result<Vec<_>, _>>()?)
    }

    /// The same from names and rates.
    pub fn from_rates<'a>(rates: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, FaultError> {
        let mut faults = Self::none();
        for (name, rate) in rates {
            if !(0.0..=1.0).contains(&rate) {
                return Err(FaultError::Rate(name.to_owned(), rate));
            }
            if name == PASSING {
                faults.set_passing(rate);
            } else {
                faults.0.insert(name.parse()?, rate);
            }
        }
        faults.check().map(|()| faults)
    }

    fn set_passing(&mut self, rate: f64) {
        let passing = |phase| Fault::ALL.iter().filter(move |f| f.stay() == Stay::Passing && f.phase() == phase);
        for fault in Fault::ALL.iter().filter(|fault| fault.stay() == Stay::Passing) {
            let among = u32::try_from(passing(fault.phase()).count()).unwrap_or(u32::MAX);
            self.0.insert(*fault, rate / f64::from(among));
        }
    }

    fn check(&self) -> Result<(), FaultError> {
        for fault in self.0.keys() {
            let (phase, stay) = (fault.phase(), fault.stay());
            let sum: f64 = self.of(phase, stay).map(|(_, rate)| rate).sum();
            // Shares such as ten times 0.1 add up to a little more than they should.
            if sum > 1.0 + 1e-9 {
                let stay = if stay == Stay::Passing { PASSING } else { "lasting" };
                return Err(FaultError::Sum { stay, phase: phase.word(), sum });
            }
        }
        Ok(())
    }

    fn of(&self, phase: Phase, stay: Stay) -> impl Iterator<Item = (Fault, f64)> {
        self.0.iter().filter(move |(f, _)| f.phase() == phase && f.stay() == stay).map(|(f, rate)| (*f, *rate))
    }

    /// The fault that one occasion meets, if any. `subject` names the thing, `tries` the occasion.
    pub(super) fn draw(&self, seed: u64, phase: Phase, subject: u64, tries: &[u64]) -> Option<Fault> {
        if self.0.is_empty() {
            return None;
        }
        let lasting = || cast(self.of(phase, Stay::Lasting), fraction(seed, phase, "lasting", subject, &[]));
        let passing = || cast(self.of(phase, Stay::Passing), fraction(seed, phase, PASSING, subject, tries));
        lasting().or_else(passing)
    }
}

/// The fault in whose share of `0.0..1.0` the number falls.
fn cast(shares: impl Iterator<Item = (Fault, f64)>, fraction: f64) -> Option<Fault> {
    let mut upper = 0.0;
    for (fault, share) in shares {
        upper += share;
        // The last share of a sum of 1 must not miss a number just below 1 by rounding.
        if fraction < upper || upper >= 1.0 - 1e-9 {
            return Some(fault);
        }
    }
    None
}

/// A number that is the same whenever the same is asked, and is otherwise as good as random.
pub(super) fn hash(seed: u64, what: &str, subject: u64, tries: &[u64]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update(what.as_bytes());
    hash.update(subject.to_be_bytes());
    for count in tries {
        hash.update(count.to_be_bytes());
    }
    hash.finalize().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn fraction(seed: u64, phase: Phase, stay: &str, subject: u64, tries: &[u64]) -> f64 {
    let number = hash(seed, &format!("{}/{stay}", phase.word()), subject, tries);
    // 53 bits are what an f64 holds exactly.
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn met(faults: &Faults, phase: Phase, occasions: u64) -> BTreeMap<Fault, u64> {
        let mut met = BTreeMap::new();
        for fault in (0..occasions).filter_map(|n| faults.draw(7, phase, n, &[0])) {
            *met.entry(fault).or_default() += 1;
        }
        met
    }

    #[test]
    fn passing_means_one_evenly_chosen_fault_an_occasion() {
        let faults = Faults::passing(0.2).unwrap();
        let with_passing = |fault: &&Fault| fault.stay() == Stay::Passing;
        let phases: BTreeSet<Phase> = Fault::ALL.iter().filter(with_passing).map(|fault| fault.phase()).collect();
        assert_eq!(phases.len(), 16, "all but those of keys and of rows at create");
        for phase in phases {
            let met = met(&faults, phase, 20_000);
            let all: Vec<_> = Fault::ALL.iter().filter(|f| f.phase() == phase && f.stay() == Stay::Passing).collect();
            assert_eq!(met.keys().collect::<Vec<_>>(), all, "every passing fault of {phase:?}, and no other");
            let total: u64 = met.values().sum();
            assert!((3_600..=4_400).contains(&total), "{phase:?}: {total} of 20000");
            let even = 4_000 / met.len() as u64;
            assert!(met.values().all(|n| (even / 2..=even * 2).contains(n)), "{phase:?}: {met:?}");
        }
        assert!(met(&faults, Phase::Key, 20_000).is_empty());
    }

    #[test]
    fn a_rate_of_one_always_happens_and_of_zero_never() {
        for fault in Fault::ALL {
            let always = Faults::from_rates([(fault.name(), 1.0)]).unwrap();
            assert_eq!(met(&always, fault.phase(), 500), BTreeMap::from([(*fault, 500)]));
            let never = Faults::from_rates([(fault.name(), 0.0)]).unwrap();
            assert!(met(&never, fault.phase(), 500).is_empty());
        }
        let all = Faults::passing(1.0).unwrap();
        assert_eq!(met(&all, Phase::Create, 5_000).values().sum::<u64>(), 5_000);
    }

    #[test]
    fn passing_faults_go_away_and_lasting_ones_stay() {
        let faults = Faults::parse(["passing=0.5", "bad-json=0.5"]).unwrap();
        let tries = |subject| (0..50).map(move |n| Faults::draw(&faults, 1, Phase::Outcome, subject, &[n]));
        let (mut bad, mut others) = (0, 0);
        for subject in 0..50 {
            let met: Vec<_> = tries.clone()(subject).collect();
            if met.first() == Some(&Some(Fault::BadJson)) {
                assert!(met.iter().all(|f| *f == Some(Fault::BadJson)));
                bad += 1;
            } else {
                assert!(met.contains(&None) && met.iter().any(Option::is_some));
                others += 1;
            }
        }
        assert!(bad > 5 && others > 5);
    }

    #[test]
    fn settings_are_read_and_mistakes_named() {
        let faults = Faults::parse(["passing=0.9", " create-drop = 0 "]).unwrap();
        assert_eq!(faults.0.get(&Fault::CreateDrop), Some(&0.0));
        assert_eq!(faults.0.get(&Fault::Get404), Some(&0.45));
        let unknown = Faults::parse(["create-dorp=0.2"]).unwrap_err().to_string();
        assert!(unknown.contains("create-dorp") && unknown.contains("create-drop") && unknown.contains("passing"));
        assert_eq!(Faults::parse(["create-drop"]), Err(FaultError::Form("create-drop".into())));
        assert_eq!(Faults::parse(["create-drop=1.5"]), Err(FaultError::Rate("create-drop".into(), 1.5)));
        assert!(matches!(Faults::parse(["create-drop=NaN"]), Err(FaultError::Rate(..))));
        assert!(matches!(Faults::parse(["passing=0.5", "get-cut=0.7"]), Err(FaultError::Sum { phase: "get", .. })));
    }
}
