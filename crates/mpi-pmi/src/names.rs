//! Published names: the launcher's table, without I/O.

use crate::limits::NAMES_MAX;
use mpi_wire::spawn::{NameOutcome, NameRequest};
use std::collections::BTreeMap;

/// Names and the ports under them, all worlds of a job together.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, Published>);

#[derive(Debug)]
struct Published {
    port: String,
    owner: usize,
}

impl Names {
    /// Does what the process `who` asks.
    pub fn ask(&mut self, who: usize, request: NameRequest) -> NameOutcome {
        match request {
            NameRequest::Publish { service, .. } if self.0.contains_key(&service) => NameOutcome::Taken,
            NameRequest::Publish { .. } if self.0.len() >= NAMES_MAX => NameOutcome::Full,
            NameRequest::Publish { service, port } => {
                self.0.insert(service, Published { port, owner: who });
                NameOutcome::Done(None)
            }
            NameRequest::Unpublish { service } => match self.0.remove(&service) {
                Some(_) => NameOutcome::Done(None),
                None => NameOutcome::Unknown,
            },
            NameRequest::Lookup { service } => match self.0.get(&service) {
                Some(published) => NameOutcome::Done(Some(published.port.clone())),
                None => NameOutcome::Unknown,
            },
        }
    }

    /// The process `who` is gone, and with it the ports that it published.
    pub fn forget(&mut self, who: usize) {
        self.0.retain(|_, published| published.owner != who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(names: &mut Names, who: usize, service: &str) -> NameOutcome {
        let (service, port) = (service.to_owned(), format!("port of {who}"));
        names.ask(who, NameRequest::Publish { service, port })
    }

    fn lookup(names: &mut Names, service: &str) -> NameOutcome {
        names.ask(9, NameRequest::Lookup { service: service.to_owned() })
    }

    #[test]
    fn a_name_is_published_once_and_taken_back() {
        let mut names = Names::default();
        assert_eq!(lookup(&mut names, "a"), NameOutcome::Unknown);
        assert_eq!(publish(&mut names, 1, "a"), NameOutcome::Done(None));
        assert_eq!(publish(&mut names, 2, "a"), NameOutcome::Taken);
        assert_eq!(lookup(&mut names, "a"), NameOutcome::Done(Some(String::from("port of 1"))));
        let back = || NameRequest::Unpublish { service: String::from("a") };
        assert_eq!(names.ask(1, back()), NameOutcome::Done(None));
        assert_eq!(names.ask(1, back()), NameOutcome::Unknown);
    }

    #[test]
    fn names_go_with_their_process_and_are_bounded() {
        let mut names = Names::default();
        for i in 0..NAMES_MAX {
            assert_eq!(publish(&mut names, i % 2, &i.to_string()), NameOutcome::Done(None));
        }
        assert_eq!(publish(&mut names, 0, "more"), NameOutcome::Full);
        names.forget(0);
        assert_eq!(lookup(&mut names, "0"), NameOutcome::Unknown);
        assert_eq!(lookup(&mut names, "1"), NameOutcome::Done(Some(String::from("port of 1"))));
    }
}
