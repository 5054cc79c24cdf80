//! How a connection starts: who is there, and the proof that both belong to the job.
//!
//! Three messages of fixed size, so that a stranger cannot make a rank allocate or wait for more
//! than a known number of bytes:
//!
//! ```text
//! dialling side                                   accepting side
//!   Hello  (version, job, from, to, nonce)   ->
//!                                            <-   HelloReply (version, job, rank, nonce, proof)
//!   Proof                                    ->
//!   messages                                 ->   messages
//! ```
//!
//! Each proof is a keyed BLAKE3 hash, under the job's secret, of the side's name and all bytes of
//! `Hello` and `HelloReply` before the proof, both nonces among them: it can neither be replayed
//! on another connection nor sent back to the one who made it. The dialling side may send messages
//! right behind its proof. The roles are types that are used up step by step; time, nonces and
//! sockets are the caller's.
//!
//! ```
//! use mpi_wire::hello::{Acceptor, Dialer, Hello, Identity, JobTag};
//! let job = JobTag::of("job-1");
//! let secret = [7; 32];
//! let dialer = Dialer::new(secret, Identity { job, rank: 0 }, Identity { job, rank: 1 }, [1; 32]);
//! let hello = Hello::decode(&dialer.hello())?;
//! let (acceptor, reply) = Acceptor::new(secret, Identity { job, rank: 1 }, &hello, [2; 32])?;
//! let proof = dialer.reply(&reply)?;
//! let peer = acceptor.proof(&proof)?;
//! assert_eq!(peer, Identity { job, rank: 0 });
//! # Ok::<(), mpi_wire::hello::HelloError>(())
//! ```

/// Version of the connection protocol. Both sides must have the same.
pub const PROTOCOL_VERSION: u32 = 1;

/// Length of an encoded [`Hello`] in bytes.
pub const HELLO_LEN: usize = 8 + 4 + 32 + 4 + 32 + 4 + 32;
/// Length of an encoded [`HelloReply`] in bytes.
pub const HELLO_REPLY_LEN: usize = REPLY_HEAD_LEN + PROOF_LEN;
/// Length of a proof in bytes.
pub const PROOF_LEN: usize = 32;

const REPLY_HEAD_LEN: usize = 8 + 4 + 32 + 4 + 32;
const HELLO_MAGIC: [u8; 8] = *b"MPI!helo";
const REPLY_MAGIC: [u8; 8] = *b"MPI!rply";

/// A side's proof that it knows the job's secret.
pub type Proof = [u8; PROOF_LEN];

/// A random number used once, 32 bytes.
pub type Nonce = [u8; 32];

/// Names a job without saying its id: a hash, so that its size is fixed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct JobTag(pub [u8; 32]);

impl JobTag {
    /// The tag of the job with this id.
    #[must_use]
    pub fn of(job: &str) -> JobTag {
        JobTag(*blake3::hash(job.as_bytes()).as_bytes())
    }
}

/// A process: its world and its rank there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Identity {
    /// Its job.
    pub job: JobTag,
    /// Its rank in the job's world.
    pub rank: u32,
}

/// Why a connection is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HelloError {
    /// The bytes are no hello: a stranger, or another protocol.
    #[error("the peer's first bytes are {found:02x?}, no hello of this protocol")]
    Magic {
        /// What came.
        found: [u8; 8],
    },
    /// Another version of the protocol.
    #[error("the peer speaks connection protocol {theirs}, this program {PROTOCOL_VERSION}")]
    Version {
        /// The peer's.
        theirs: u32,
    },
    /// The peer is looking for, or is, somebody else: an address used again, say.
    #[error("the connection is for rank {found}, and this is rank {expected}")]
    Rank {
        /// Who should be there.
        expected: u32,
        /// Who is.
        found: u32,
    },
    /// The peer belongs to another job.
    #[error("the peer belongs to another job")]
    Job,
    /// The peer does not know the job's secret.
    #[error("the peer cannot prove that it belongs to the job")]
    Proof,
}

/// What the dialling side says first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Who dials; its job tells the accepting side which secret to take. Not proved yet.
    pub from: Identity,
    /// Who is wanted.
    pub to: Identity,
    /// The dialling side's nonce.
    pub nonce: Nonce,
}

impl Hello {
    fn encode(&self) -> [u8; HELLO_LEN] {
        let mut out = [0; HELLO_LEN];
        fill(
            &mut out,
            &[
                &HELLO_MAGIC,
                &PROTOCOL_VERSION.to_le_bytes(),
                &self.from.job.0,
                &self.from.rank.to_le_bytes(),
                &self.to.job.0,
                &self.to.rank.to_le_bytes(),
                &self.nonce,
            ],
        );
        out
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// [`HelloError::Magic`], [`HelloError::Version`].
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Hello, HelloError> {
        check_start(bytes, HELLO_MAGIC)?;
        Ok(Hello {
            from: Identity { job: JobTag(part(bytes, 12)), rank: u32::from_le_bytes(part(bytes, 44)) },
            to: Identity { job: JobTag(part(bytes, 48)), rank: u32::from_le_bytes(part(bytes, 80)) },
            nonce: part(bytes, 84),
        })
    }
}

/// What the accepting side answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HelloReply {
    /// Who answers.
    pub from: Identity,
    /// The accepting side's nonce.
    pub nonce: Nonce,
    /// Its proof.
    pub proof: Proof,
}

impl HelloReply {
    fn encode(&self) -> [u8; HELLO_REPLY_LEN] {
        let mut out = [0; HELLO_REPLY_LEN];
        fill(
            &mut out,
            &[
                &REPLY_MAGIC,
                &PROTOCOL_VERSION.to_le_bytes(),
                &self.from.job.0,
                &self.from.rank.to_le_bytes(),
                &self.nonce,
                &self.proof,
            ],
        );
        out
    }

    /// Reads a reply; its proof is not looked at.
    ///
    /// # Errors
    /// [`HelloError::Magic`], [`HelloError::Version`].
    pub fn decode(bytes: &[u8; HELLO_REPLY_LEN]) -> Result<HelloReply, HelloError> {
        check_start(bytes, REPLY_MAGIC)?;
        Ok(HelloReply {
            from: Identity { job: JobTag(part(bytes, 12)), rank: u32::from_le_bytes(part(bytes, 44)) },
            nonce: part(bytes, 48),
            proof: part(bytes, REPLY_HEAD_LEN),
        })
    }
}

/// The dialling side, waiting for the reply.
#[derive(Clone)]
pub struct Dialer {
    secret: [u8; 32],
    hello: [u8; HELLO_LEN],
    to: Identity,
}

impl Dialer {
    /// `me` dials `to`. The nonce comes fresh from a random source.
    #[must_use]
    pub fn new(secret: [u8; 32], me: Identity, to: Identity, nonce: Nonce) -> Dialer {
        Dialer { secret, hello: Hello { from: me, to, nonce }.encode(), to }
    }

    /// The first message.
    #[must_use]
    pub fn hello(&self) -> [u8; HELLO_LEN] {
        self.hello
    }

    /// Checks the reply; gives the proof that is to be sent, after which the connection stands.
    ///
    /// # Errors
    /// [`HelloError`]; the connection is to be closed.
    pub fn reply(self, bytes: &[u8; HELLO_REPLY_LEN]) -> Result<Proof, HelloError> {
        let reply = HelloReply::decode(bytes)?;
        check_identity(self.to, reply.from)?;
        let expected = keyed(&self.secret, b"accept", &self.hello, bytes);
        if expected != blake3::Hash::from_bytes(reply.proof) {
            return Err(HelloError::Proof);
        }
        Ok(*keyed(&self.secret, b"dial", &self.hello, bytes).as_bytes())
    }
}

/// The accepting side, waiting for the proof.
#[derive(Clone)]
pub struct Acceptor {
    expected: blake3::Hash,
    peer: Identity,
}

impl Acceptor {
    /// Answers `hello` as `me`. `secret` is that of the dialling side's job. Gives the message that
    /// is to be sent. The nonce comes fresh from a random source.
    ///
    /// # Errors
    /// [`HelloError::Rank`], [`HelloError::Job`] when somebody else is wanted.
    pub fn new(
        secret: [u8; 32],
        me: Identity,
        hello: &Hello,
        nonce: Nonce,
    ) -> Result<(Acceptor, [u8; HELLO_REPLY_LEN]), HelloError> {
        check_identity(me, hello.to)?;
        let hello_bytes = hello.encode();
        let mut reply = HelloReply { from: me, nonce, proof: [0; PROOF_LEN] };
        reply.proof = *keyed(&secret, b"accept", &hello_bytes, &reply.encode()).as_bytes();
        let reply = reply.encode();
        let expected = keyed(&secret, b"dial", &hello_bytes, &reply);
        Ok((Acceptor { expected, peer: hello.from }, reply))
    }

    /// Checks the dialling side's proof; gives who it is, now proved.
    ///
    /// # Errors
    /// [`HelloError::Proof`]; the connection is to be closed without a word.
    pub fn proof(self, proof: &Proof) -> Result<Identity, HelloError> {
        // `blake3::Hash` compares in constant time.
        if self.expected == blake3::Hash::from_bytes(*proof) { Ok(self.peer) } else { Err(HelloError::Proof) }
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("to", &self.to).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// The secret between the job that has `secret` and a job that it let in: every process of the host
/// derives it from its own secret, and the guests are told it, which tells them nothing of the
/// host's. A guest dials a host's process with it.
#[must_use]
pub fn guest_secret(secret: &[u8; 32], guest: JobTag) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"guest");
    hasher.update(&guest.0);
    *hasher.finalize().as_bytes()
}

/// Hash of everything both sides have seen before the proof of the accepting side.
fn keyed(
    secret: &[u8; 32],
    side: &[u8],
    hello: &[u8; HELLO_LEN],
    reply: &[u8; HELLO_REPLY_LEN],
) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(side);
    hasher.update(hello);
    hasher.update(&reply[..REPLY_HEAD_LEN]);
    hasher.finalize()
}

fn check_start(bytes: &[u8], magic: [u8; 8]) -> Result<(), HelloError> {
    let found: [u8; 8] = part(bytes, 0);
    if found != magic {
        return Err(HelloError::Magic { found });
    }
    let theirs = u32::from_le_bytes(part(bytes, 8));
    if theirs == PROTOCOL_VERSION { Ok(()) } else { Err(HelloError::Version { theirs }) }
}

fn check_identity(expected: Identity, found: Identity) -> Result<(), HelloError> {
    if expected.job != found.job {
        return Err(HelloError::Job);
    }
    if expected.rank != found.rank {
        return Err(HelloError::Rank { expected: expected.rank, found: found.rank });
    }
    Ok(())
}

/// `N` bytes from `at` on; callers stay inside arrays of fixed size.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn fill(out: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, out.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: [u8; 32] = [7; 32];

    fn id(rank: u32) -> Identity {
        Identity { job: JobTag::of("job"), rank }
    }

    fn exchange(dial: [u8; 32], accept: [u8; 32]) -> Result<Identity, HelloError> {
        let dialer = Dialer::new(dial, id(3), id(5), [1; 32]);
        let hello = Hello::decode(&dialer.hello())?;
        let (acceptor, reply) = Acceptor::new(accept, id(5), &hello, [2; 32])?;
        acceptor.proof(&dialer.reply(&reply)?)
    }

    #[test]
    fn both_prove() {
        assert_eq!(exchange(SECRET, SECRET), Ok(id(3)));
    }

    #[test]
    fn neither_passes_without_the_secret() {
        assert_eq!(exchange(SECRET, [8; 32]), Err(HelloError::Proof));
        let dialer = Dialer::new([8; 32], id(3), id(5), [1; 32]);
        let hello = Hello::decode(&dialer.hello()).unwrap();
        let (acceptor, reply) = Acceptor::new(SECRET, id(5), &hello, [2; 32]).unwrap();
        let guess = *keyed(&[8; 32], b"dial", &dialer.hello(), &reply).as_bytes();
        assert_eq!(acceptor.proof(&guess), Err(HelloError::Proof));
    }

    #[test]
    fn a_guest_proves_itself_and_nobody_else() {
        let guest = JobTag::of("guest");
        let secret = guest_secret(&SECRET, guest);
        assert_eq!(exchange(secret, guest_secret(&SECRET, guest)), Ok(id(3)));
        assert_eq!(exchange(secret, SECRET), Err(HelloError::Proof), "as one of the host's own");
        let other = guest_secret(&SECRET, JobTag::of("other"));
        assert_eq!(exchange(secret, other), Err(HelloError::Proof), "as another guest");
    }

    #[test]
    fn a_proof_is_good_for_one_connection_and_one_direction() {
        let dialer = Dialer::new(SECRET, id(3), id(5), [1; 32]);
        let hello = Hello::decode(&dialer.hello()).unwrap();
        let (first, reply) = Acceptor::new(SECRET, id(5), &hello, [2; 32]).unwrap();
        let proof = dialer.clone().reply(&reply).unwrap();
        assert_eq!(first.clone().proof(&proof), Ok(id(3)));
        let (second, _) = Acceptor::new(SECRET, id(5), &hello, [3; 32]).unwrap();
        assert_eq!(second.proof(&proof), Err(HelloError::Proof), "replayed");
        let own = HelloReply::decode(&reply).unwrap().proof;
        assert_eq!(first.proof(&own), Err(HelloError::Proof), "sent back");
    }

    #[test]
    fn the_wrong_one_is_named() {
        let dialer = Dialer::new(SECRET, id(3), id(5), [1; 32]);
        let hello = Hello::decode(&dialer.hello()).unwrap();
        assert_eq!(
            Acceptor::new(SECRET, id(6), &hello, [2; 32]).err(),
            Some(HelloError::Rank { expected: 6, found: 5 })
        );
        let other = Identity { job: JobTag::of("other"), rank: 5 };
        assert_eq!(Acceptor::new(SECRET, other, &hello, [2; 32]).err(), Some(HelloError::Job));
    }

    #[test]
    fn other_protocols_and_versions_are_refused() {
        let mut http = [b' '; HELLO_LEN];
        http[..14].copy_from_slice(b"GET / HTTP/1.1");
        assert!(matches!(Hello::decode(&http), Err(HelloError::Magic { .. })));
        let mut later = Dialer::new(SECRET, id(3), id(5), [1; 32]).hello();
        later[8] = 9;
        let error = Hello::decode(&later).unwrap_err();
        assert_eq!(error.to_string(), "the peer speaks connection protocol 9, this program 1");
    }

    proptest! {
        #[test]
        fn round_trip(job: [u8; 32], from: u32, to: u32, nonce: [u8; 32]) {
            let hello = Hello {
                from: Identity { job: JobTag(job), rank: from },
                to: Identity { job: JobTag(nonce), rank: to },
                nonce,
            };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            let reply = HelloReply { from: hello.from, nonce, proof: job };
            prop_assert_eq!(HelloReply::decode(&reply.encode()), Ok(reply));
        }

        #[test]
        fn any_changed_bit_is_noticed(bit in 0..HELLO_REPLY_LEN * 8) {
            let dialer = Dialer::new(SECRET, id(3), id(5), [1; 32]);
            let hello = Hello::decode(&dialer.hello()).unwrap();
            let (_, mut reply) = Acceptor::new(SECRET, id(5), &hello, [2; 32]).unwrap();
            reply[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(dialer.reply(&reply).is_err());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), HELLO_LEN)) {
            let mut hello = [0; HELLO_LEN];
            hello.copy_from_slice(&bytes);
            prop_assert!(Hello::decode(&hello).is_err());
            hello[..8].copy_from_slice(&HELLO_MAGIC);
            hello[8..12].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
            prop_assert!(Hello::decode(&hello).is_ok());
        }
    }
}
