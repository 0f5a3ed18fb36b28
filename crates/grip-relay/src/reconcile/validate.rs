//! Validation of NIP-77 messages before the library reads them: it takes over-long numbers and bounds
//! out of order without complaint, which would have it work through ranges twice.

/// The version this relay speaks.
const VERSION: u8 = 0x61;

/// Says what is wrong with a message, if anything is.
///
/// A message of another version is fine here: it is answered with the version spoken.
pub(super) fn check(message: &[u8]) -> Result<(), &'static str> {
    let (version, mut rest) = message
        .split_first()
        .ok_or("the message is empty or no hex")?;
    if *version != VERSION {
        return Ok(());
    }
    let mut bounds = Bounds::default();
    while !rest.is_empty() {
        let bound = read_bound(&mut rest, &mut bounds.time)?;
        bounds.ascend(bound)?;
        skip_payload(&mut rest)?;
    }
    Ok(())
}

/// A point in the order of events: time, then id.
type Bound = (u64, [u8; 32]);

#[derive(Default)]
struct Bounds {
    /// Times are given as differences.
    time: u64,
    last: Option<Bound>,
}

impl Bounds {
    fn ascend(&mut self, bound: Bound) -> Result<(), &'static str> {
        match self.last.replace(bound) {
            Some(last) if last > bound => Err("the bounds of the message do not ascend"),
            _ => Ok(()),
        }
    }
}

fn read_bound(rest: &mut &[u8], time: &mut u64) -> Result<Bound, &'static str> {
    let at = match number(rest)? {
        0 => u64::MAX,
        offset => {
            *time = time
                .checked_add(offset - 1)
                .ok_or("a time in the message is too large")?;
            *time
        }
    };
    let length = usize::try_from(number(rest)?).unwrap_or(usize::MAX);
    let mut id = [0; 32];
    let prefix = id
        .get_mut(..length)
        .ok_or("an id prefix in the message is longer than an id")?;
    prefix.copy_from_slice(take(rest, length)?);
    Ok((at, id))
}

fn skip_payload(rest: &mut &[u8]) -> Result<(), &'static str> {
    match number(rest)? {
        0 => {}
        1 => drop(take(rest, 16)?),
        2 => {
            let ids = usize::try_from(number(rest)?).unwrap_or(usize::MAX);
            take(rest, ids.saturating_mul(32))?;
        }
        _ => return Err("a range of the message has an unknown mode"),
    }
    Ok(())
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], &'static str> {
    let (taken, left) = rest
        .split_at_checked(length)
        .ok_or("the message ends too early")?;
    *rest = left;
    Ok(taken)
}

/// Base 128, most significant digit first, without leading zeros.
fn number(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value: u64 = 0;
    for at in 0.. {
        let byte = take(rest, 1)?[0];
        if at == 0 && byte == 0x80 {
            return Err("a number in the message is written over-long");
        }
        if value > u64::MAX >> 7 {
            return Err("a number in the message is too large");
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(value)
}
