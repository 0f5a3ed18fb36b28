//! RFC 3339 timestamps.

use jiff::Timestamp;

const DAY: i64 = 86_400;

/// Why a text is no timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 timestamp, such as 2019-04-10T19:08:52.997264Z")]
pub struct InvalidTimestamp;

/// Parses a timestamp; one beyond what nanoseconds can count is the last that they can.
pub(crate) fn parse(text: &str) -> Result<i64, InvalidTimestamp> {
    // What a URL makes of a plus sign.
    let text = text.replace(' ', "+");
    let has_time = text.len() >= "2019-04-10T19:08:52Z".len() && text.len() <= 64;
    let timestamp: Timestamp = if has_time && text.as_bytes()[10].eq_ignore_ascii_case(&b'T') {
        text.parse().map_err(|_| InvalidTimestamp)?
    } else {
        return Err(InvalidTimestamp);
    };
    let ns = timestamp.as_nanosecond();
    Ok(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
}

/// Writes a timestamp of the years 0 to 9999 with six digits after the second, as Go's index does.
pub(crate) fn write(out: &mut Vec<u8>, seconds: i64, micros: u32) {
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    digits(out, year, 4);
    out.push(b'-');
    digits(out, month, 2);
    out.push(b'-');
    digits(out, day, 2);
    out.push(b'T');
    digits(out, rest / 3_600, 2);
    out.push(b':');
    digits(out, rest / 60 % 60, 2);
    out.push(b':');
    digits(out, rest % 60, 2);
    out.push(b'.');
    digits(out, i64::from(micros), 6);
    out.push(b'Z');
}

fn digits(out: &mut Vec<u8>, number: i64, count: usize) {
    let start = out.len();
    out.resize(start + count, b'0');
    let mut rest = number.unsigned_abs();
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// The date so many days after 1970-01-01. Counts years from March, so that the day that leap
/// years add is the last of them.
fn date(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + cycle * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(seconds: i64, micros: u32) -> String {
        let mut out = Vec::new();
        write(&mut out, seconds, micros);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_no_timestamp_is_refused() {
        let words = "yesterday 2019-04-10 2019-04-10T19:08 2019-04-10T19:08:52 2019-04-10T25:08:52Z \
            2019-02-30T19:08:52Z 1554923332";
        for text in words.split(' ').chain([
            "",
            "2019-04-10 19:08:52Z",
            "2019-04-10T19:08:52Z; DROP TABLE repos",
        ]) {
            assert_eq!(parse(text), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        let expected = 1_554_923_332_997_264_000;
        for text in [
            "2019-04-10T19:08:52.997264Z",
            "2019-04-10t19:08:52.997264z",
            "2019-04-10T21:08:52.997264000+02:00",
            "2019-04-10T21:08:52.997264000 02:00",
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(parse("0001-01-01T00:00:00Z"), Ok(i64::MIN));
        assert_eq!(parse("9999-12-30T00:00:00Z"), Ok(i64::MAX));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(us in 0_i64..i64::MAX / 1_000) {
            let (seconds, micros) = (us / 1_000_000, (us % 1_000_000) as u32);
            prop_assert_eq!(parse(&written(seconds, micros)), Ok(us * 1_000));
        }

        #[test]
        fn it_is_written_as_a_library_would(seconds in 0_i64..253_402_207_200) {
            let expected = Timestamp::from_second(seconds).unwrap();
            let text = format!("{expected:.6}");
            prop_assert_eq!(written(seconds, 0), text);
        }
    }
}
