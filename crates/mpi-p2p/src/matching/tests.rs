//! Both queues against a plain list searched from the front.

use super::*;
use crate::status::ANY;
use proptest::prelude::*;

#[derive(Default)]
struct Receives(Vec<PostedKey>);
impl PostedNodes for Receives {
    fn key(&mut self, i: u32) -> &mut PostedKey {
        &mut self.0[i as usize]
    }
}

#[derive(Default)]
struct Messages(Vec<UnexpectedKey>);
impl UnexpectedNodes for Messages {
    fn key(&mut self, i: u32) -> &mut UnexpectedKey {
        &mut self.0[i as usize]
    }
}

fn fits(wanted: i32, have: i32) -> bool {
    wanted == ANY || wanted == have
}

fn wildcard(n: i32) -> i32 {
    if n == 0 { ANY } else { n - 1 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn posted_matches_like_a_list(steps in prop::collection::vec((0..8u8, 0..4i32, 0..6i32, any::<u16>()), 0..500)) {
        let mut nodes = Receives::default();
        let mut queue = Posted::new();
        let mut list: Vec<u32> = Vec::new();
        for (what, source, tag, pick) in steps {
            match what {
                0..=4 => {
                    let i = nodes.0.len() as u32;
                    nodes.0.push(PostedKey::new(wildcard(source), wildcard(tag)));
                    queue.post(&mut nodes, i);
                    list.push(i);
                }
                5 if !list.is_empty() => {
                    let i = list.remove(pick as usize % list.len());
                    queue.remove(&mut nodes, i);
                }
                _ => {
                    let clear = queue.is_clear_for(source);
                    let expected = list
                        .iter()
                        .position(|i| {
                            let k = nodes.0[*i as usize];
                            fits(k.source, source) && fits(k.tag, tag)
                        })
                        .map(|at| list.remove(at));
                    prop_assert!(!(clear && expected.is_some()));
                    prop_assert_eq!(queue.take(&mut nodes, source, tag), expected);
                }
            }
            prop_assert_eq!(queue.len(), list.len());
        }
        let mut left = queue.entries(&mut nodes);
        left.sort_unstable();
        prop_assert_eq!(left, list);
    }

    #[test]
    fn unexpected_matches_like_a_list(steps in prop::collection::vec((0..8u8, 0..4i32, 0..6i32), 0..500)) {
        let mut nodes = Messages::default();
        let mut queue = Unexpected::new();
        let mut list: Vec<u32> = Vec::new();
        for (what, source, tag) in steps {
            if what < 5 {
                let i = nodes.0.len() as u32;
                nodes.0.push(UnexpectedKey::new(source, tag));
                queue.push(&mut nodes, i);
                list.push(i);
            } else {
                let (source, tag) = (wildcard(source), wildcard(tag));
                let at = list.iter().position(|i| {
                    let k = nodes.0[*i as usize];
                    fits(source, k.source) && fits(tag, k.tag)
                });
                let found = queue.find(&mut nodes, source, tag);
                prop_assert_eq!(found, at.map(|at| list[at]));
                if let (Some(i), Some(at)) = (found, at) {
                    if what < 7 {
                        queue.remove(&mut nodes, i);
                        list.remove(at);
                    }
                }
            }
            prop_assert_eq!(queue.len(), list.len());
        }
        prop_assert_eq!(queue.entries(&mut nodes), list);
    }
}
