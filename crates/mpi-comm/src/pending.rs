//! An agreement that runs inside the engine, for communicators that are made without waiting.

use crate::agreement::{Action, Agreement, Peer};
use crate::comm::Id;
use crate::context_ids::ContextIds;
use crate::words;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_p2p::{Activity, Context, Error, Inside, RequestId, Source, Status, Step, Tag};
use std::sync::{Arc, Mutex, PoisonError};

/// The outcome, once there is one: the id, or none when no id was left. Whoever drops the last
/// handle without taking it gives the id back.
#[derive(Clone)]
pub(crate) struct Agreed(Arc<Mutex<Option<Option<Id>>>>);

impl Agreed {
    pub(crate) fn take(&self) -> Option<Option<Id>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, outcome: Option<Id>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

/// A way to a peer in the tree.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) context: Arc<Context>,
    pub(crate) rank: u32,
    pub(crate) tag: i32,
}

/// The agreement as the engine sees it.
pub(crate) struct AgreementActivity {
    agreement: Agreement,
    ids: Arc<ContextIds>,
    links: Vec<Link>,
    running: Option<Running>,
    /// Memory of the running request. Only replaced when there is none.
    bytes: Vec<u8>,
    agreed: Agreed,
}

enum Running {
    Send(RequestId),
    Receive(RequestId),
}

impl AgreementActivity {
    pub(crate) fn new(
        agreement: Agreement,
        ids: Arc<ContextIds>,
        links: Vec<Link>,
    ) -> (AgreementActivity, Agreed) {
        let agreed = Agreed(Arc::default());
        let activity = AgreementActivity {
            agreement,
            ids,
            links,
            running: None,
            bytes: Vec::new(),
            agreed: agreed.clone(),
        };
        (activity, agreed)
    }

    /// Takes the result of the running request; `false` while there is none.
    fn reap(&mut self, inside: &mut Inside<'_>) -> Result<bool, Error> {
        let (id, receives) = match self.running {
            None => return Ok(true),
            Some(Running::Send(id)) => (id, false),
            Some(Running::Receive(id)) => (id, true),
        };
        let Some(result) = inside.take(id) else { return Ok(false) };
        self.running = None;
        let status = result?;
        if receives {
            let length = self.bytes.len().min(status.bytes as usize);
            self.agreement.received(&words::from_bytes(&self.bytes[..length]));
        }
        Ok(true)
    }

    fn link(&self, peer: Peer) -> Result<&Link, Error> {
        let found = self.links.iter().find(|link| link.peer == peer);
        found.ok_or_else(|| crate::comm::broken("a peer that is not in the tree"))
    }
}

impl Activity for AgreementActivity {
    fn advance(&mut self, inside: &mut Inside<'_>) -> Result<Step, Error> {
        while self.reap(inside)? {
            match self.agreement.next() {
                Action::Send(to, words) => {
                    // As for agreements that wait: nothing may be left of those who had the ids.
                    inside.forget_dropped();
                    self.bytes = words::to_bytes(&words);
                    let link = self.link(to)?;
                    let buf = SendBuf::packed(&self.bytes);
                    let id = inside.isend(&link.context, link.rank, link.tag, buf)?;
                    self.running = Some(Running::Send(id));
                }
                Action::Receive(from, words) => {
                    let mut bytes = vec![0; words * 8];
                    let link = self.link(from)?;
                    let buf = RecvBuf::packed(&mut bytes);
                    let id = inside.irecv(&link.context, Source::Rank(link.rank), Tag::Is(link.tag), buf)?;
                    // Moving a vector leaves its memory where it is.
                    self.bytes = bytes;
                    self.running = Some(Running::Receive(id));
                }
                Action::Done(id) => {
                    self.agreed.set(Some(Id::held(id, self.ids.clone())));
                    return Ok(Step::Done(Status::EMPTY));
                }
                Action::Exhausted => {
                    self.agreed.set(None);
                    return Ok(Step::Done(Status::EMPTY));
                }
            }
        }
        Ok(Step::Pending)
    }

    fn name(&self) -> &'static str {
        "duplicate"
    }
}
