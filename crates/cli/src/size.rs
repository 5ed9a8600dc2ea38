//! Sizes as people type and read them.

/// Parses `4096`, `4k`, `64KiB`, `1M`, `2G`; the letters are powers of 1024.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = text.get(digits.len()..).unwrap_or_default();
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => {
            return Err(format!(
                "`{suffix}` is not a unit of size: use k, M, G or T (powers of 1024)"
            ));
        }
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a size: write for example 4096, 64k or 1M"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is larger than any file"))
}

/// As [`parse`], and at least 1.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_nonzero(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err(String::from("must be at least 1")),
        size => Ok(size),
    }
}

/// A size for people: exact below 10,000 bytes, three digits and a power of 1024 above.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 10_000 {
        return format!("{bytes} B");
    }
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("64KiB", 65536),
            ("1M", 1 << 20),
            ("3g", 3 << 30),
        ];
        for (text, size) in cases {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
        for text in ["", "k", "1.5M", "-1", "12q", "99999999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_nonzero("0k").is_err());
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(human(9999), "9999 B");
        assert_eq!(human(64 << 10), "64.0 KiB");
        assert_eq!(human(256 << 20), "256 MiB");
        assert_eq!(human(u64::MAX), "16.0 EiB");
    }
}
