//! When a certificate ends: as much of its encoding as that takes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the first certificate of a PEM file ends.
pub fn end_of(pem: &[u8]) -> Option<jiff::Timestamp> {
    let text = str::from_utf8(pem).ok()?;
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let body: String = body.split_whitespace().collect();
    let octets = STANDARD.decode(body).ok()?;
    let (_, certificate, _) = part(&octets)?;
    let (_, mut rest, _) = part(certificate)?;
    if rest.first() == Some(&VERSION) {
        rest = part(rest)?.2;
    }
    // The serial number, the signature algorithm and the issuer come before the validity.
    for _ in 0..3 {
        rest = part(rest)?.2;
    }
    let (SEQUENCE, validity, _) = part(rest)? else { return None };
    let (_, _, rest) = part(validity)?;
    let (kind, end, _) = part(rest)?;
    let end = str::from_utf8(end).ok()?;
    let end = match kind {
        // Two digits of the year, of which those below 50 are in this century.
        UTC_TIME => format!("{}{end}", if end.get(..2)?.parse::<u32>().ok()? < 50 { "20" } else { "19" }),
        GENERALIZED_TIME => end.to_owned(),
        _ => return None,
    };
    let field = |from: usize, to: usize| end.get(from..to);
    let (date, time) = (
        format!("{}-{}-{}", field(0, 4)?, field(4, 6)?, field(6, 8)?),
        format!("{}:{}:{}", field(8, 10)?, field(10, 12)?, field(12, 14)?),
    );
    format!("{date}T{time}Z").parse().ok()
}

/// The first part of some octets: its kind, what it holds, and what follows it.
fn part(octets: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = octets.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
        (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_has_no_end() {
        let wrap =
            |octets: &[u8]| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(octets));
        for octets in [
            &[][..],
            &[0x30],
            &[0x30, 0x80],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 2, 0x30, 0],
            &[0x30, 5, 0x30, 3, 2, 1, 1],
        ] {
            assert_eq!(end_of(wrap(octets).as_bytes()), None, "{octets:?}");
        }
        assert_eq!(end_of(b"no certificate"), None);
    }
}
