//! Lengths of WebSocket frames (RFC 6455 §5.2), read from the bytes as they pass.

/// Opcodes from here on are of control frames, which are short and part of no message.
const CONTROL: u8 = 0x8;

/// How long the message under way is, as far as the heads of its frames have come.
///
/// Nothing is checked here: the websocket parser does that.
#[derive(Debug, Default)]
pub(super) struct FrameLengths {
    /// Bytes of the frames of the message, those not yet read included.
    pub(super) message: usize,
    /// Messages that have ended.
    pub(super) ended: u64,
    head: Vec<u8>,
    /// Bytes of the frame that are still to come.
    left: u64,
    /// The message ends with this frame.
    is_last: bool,
}

impl FrameLengths {
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left == 0 {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                if let Some(length) = length(&self.head) {
                    self.begin(length);
                }
            } else {
                let skipped =
                    usize::try_from(self.left).map_or(bytes.len(), |n| n.min(bytes.len()));
                self.left -= skipped as u64;
                bytes = &bytes[skipped..];
                self.end_if_whole();
            }
        }
    }

    fn begin(&mut self, length: u64) {
        let is_control = self.head[0] & 0x0f >= CONTROL;
        self.is_last = self.head[0] & 0x80 != 0 && !is_control;
        if !is_control {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            self.message = self.message.saturating_add(length);
        }
        self.head.clear();
        self.left = length;
        self.end_if_whole();
    }

    fn end_if_whole(&mut self) {
        if self.left == 0 && self.is_last {
            self.message = 0;
            self.ended += 1;
        }
    }
}

/// The length of the payload, once the head is whole.
fn length(head: &[u8]) -> Option<u64> {
    let second = *head.get(1)?;
    let mask = if second & 0x80 != 0 { 4 } else { 0 };
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    if head.len() < 2 + extended + mask {
        return None;
    }
    let length = head[2..2 + extended].iter();
    match extended {
        0 => Some(u64::from(second & 0x7f)),
        _ => Some(length.fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(first: u8, length: u64) -> Vec<u8> {
        [&[first, 0xff][..], &length.to_be_bytes(), &[1, 2, 3, 4]].concat()
    }

    #[test]
    fn a_message_counts_whole_as_soon_as_its_head_is_there() {
        let mut lengths = FrameLengths::default();
        let head = head(0x81, 2_000_000);
        lengths.read(&head[..13]);
        assert_eq!(lengths.message, 0);
        lengths.read(&head[13..]);
        assert_eq!(lengths.message, 2_000_000);
        lengths.read(&vec![0; 1_999_999]);
        assert_eq!(lengths.message, 2_000_000);
        lengths.read(&[0]);
        assert_eq!((lengths.message, lengths.ended), (0, 1));
    }

    #[test]
    fn a_message_that_begins_where_another_ends_is_another() {
        let mut lengths = FrameLengths::default();
        lengths.read(&head(0x81, 100_000));
        let next = [&vec![0; 100_000][..], &head(0x81, 100_000)].concat();
        lengths.read(&next);
        assert_eq!((lengths.message, lengths.ended), (100_000, 1));
    }

    #[test]
    fn parts_of_a_message_add_up_and_pings_in_between_do_not_count() {
        let mut lengths = FrameLengths::default();
        lengths.read(&head(0x01, 3));
        lengths.read(b"abc");
        lengths.read(&[0x89, 0x80, 1, 2, 3, 4]);
        lengths.read(&head(0x00, 100_000));
        assert_eq!(lengths.message, 100_003);
        lengths.read(&vec![0; 100_000]);
        assert_eq!(lengths.message, 100_003, "another part is to come");
        lengths.read(&[0x80, 0x80, 1, 2, 3, 4]);
        assert_eq!(lengths.message, 0);
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_length_is_the_same(
            sizes in proptest::collection::vec((0_u64..300, any::<bool>()), 1..6),
            cut in 1_usize..40,
        ) {
            let mut bytes = Vec::new();
            for (size, is_last) in &sizes {
                bytes.extend(head(if *is_last { 0x81 } else { 0x01 }, *size));
                bytes.resize(bytes.len() + *size as usize, 7);
            }
            let mut whole = FrameLengths::default();
            whole.read(&bytes);
            let mut pieces = FrameLengths::default();
            for piece in bytes.chunks(cut) {
                pieces.read(piece);
            }
            prop_assert_eq!(whole.message, pieces.message);
            prop_assert_eq!(whole.ended, pieces.ended);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            FrameLengths::default().read(&bytes);
        }
    }
}
