//! Nobody gets through the hello without the secret, and no bytes make either side panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::hello::*;

const SECRET: [u8; 32] = [7; 32];

fuzz_target!(|input: ([u8; HELLO_LEN], [u8; HELLO_REPLY_LEN], [u8; PROOF_LEN])| {
    let (hello, reply, proof) = input;
    let me = |rank| Identity { job: JobTag::of("job"), rank };

    let dialer = Dialer::new(SECRET, me(0), me(1), [1; 32]);
    assert!(dialer.clone().reply(&reply).is_err());

    if let Ok(hello) = Hello::decode(&hello) {
        if let Ok((acceptor, _reply)) = Acceptor::new(SECRET, hello.to, &hello, [2; 32]) {
            assert_eq!(acceptor.proof(&proof), Err(HelloError::Proof));
        }
    }

    // A true hello and a reply whose bytes were touched on the way.
    let true_hello = Hello::decode(&dialer.hello()).expect("our own hello");
    let (_acceptor, true_reply) = Acceptor::new(SECRET, me(1), &true_hello, [2; 32]).expect("the right rank");
    let mut touched = true_reply;
    for (byte, change) in touched.iter_mut().zip(reply) {
        *byte ^= change;
    }
    assert_eq!(dialer.reply(&touched).is_ok(), touched == true_reply);
});
