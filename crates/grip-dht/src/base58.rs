//! The alphabet in which names of peers are written.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Writes `bytes` down; meant for the few dozen bytes of a name.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // Little-endian digits of one large number.
    let mut digits: Vec<u8> = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes.iter().skip(zeros) {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = std::iter::repeat_n(0, zeros);
    zeros
        .chain(digits.into_iter().rev())
        .map(|digit| char::from(ALPHABET[usize::from(digit)]))
        .collect()
}

/// Reads `text`, or nothing where a letter is not of the alphabet.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let zeros = text.bytes().take_while(|letter| *letter == b'1').count();
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    for letter in text.bytes().skip(zeros) {
        let mut carry = ALPHABET.iter().position(|known| *known == letter)? as u32;
        for byte in &mut bytes {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    bytes.extend(std::iter::repeat_n(0, zeros));
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_texts_are_written_and_read() {
        for (bytes, text) in [
            (&b""[..], ""),
            (&[0, 0, 1], "112"),
            (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
            (&[0, 0, 0x28, 0x7f, 0xb4, 0xcd], "11233QC4"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).unwrap(), bytes);
        }
        assert_eq!(decode("0OIl"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }
}
