//! Durations and points in time, as people type them and as a listing shows them.
//!
//! Times are shown in the local time zone. "Now" is always passed in; only [`now`] reads the clock.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use job::fsd::Fsd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
#[must_use]
pub fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// A time limit in seconds: a bare number is minutes, as in Flux; `inf` and 0 are no limit.
///
/// # Errors
/// What was met and what was expected.
pub fn time_limit(text: &str) -> Result<f64, String> {
    if let Ok(minutes) = text.parse::<f64>()
        && minutes.is_finite()
        && minutes >= 0.0
    {
        return Ok(minutes * 60.0);
    }
    duration(text).map(|seconds| if seconds.is_finite() { seconds } else { 0.0 })
}

/// A duration in seconds (RFC 23); a bare number is seconds.
///
/// # Errors
/// What was met and what was expected.
pub fn duration(text: &str) -> Result<f64, String> {
    text.parse::<Fsd>()
        .map(|duration| duration.0)
        .map_err(|error| error.to_string())
}

/// A finite duration in seconds, for timeouts and intervals.
///
/// # Errors
/// What was met and what was expected.
pub fn finite(text: &str) -> Result<f64, String> {
    let seconds = duration(text)?;
    if seconds.is_finite() {
        Ok(seconds)
    } else {
        Err(format!("'{text}' is not a finite duration"))
    }
}

/// A point in time, in seconds since 1970: a number as it is, `-1h` or `1h` that long ago, or a date and time such as
/// `2026-11-30`, `2026-11-30T14:00` (local), `2026-11-30T14:00Z`, `14:30` (today), `now`.
///
/// # Errors
/// What was met and what was expected.
pub fn instant(text: &str, now: f64) -> Result<f64, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Ok(seconds) = text.parse::<f64>()
        && seconds.is_finite()
        && seconds >= 0.0
    {
        return Ok(seconds);
    }
    if let Ok(ago) = duration(text.strip_prefix('-').unwrap_or(text))
        && ago.is_finite()
    {
        return Ok(now - ago);
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(seconds_of(instant));
    }
    let civil = text.parse::<DateTime>().or_else(|_| {
        // A time of day alone.
        text.parse::<jiff::civil::Time>()
            .map(|time| zoned(now).map_or(DateTime::MIN, |zoned| zoned.date().to_datetime(time)))
    });
    match civil.and_then(|civil| civil.to_zoned_datetime(TimeZone::system())) {
        Ok(zoned) => Ok(seconds_of(zoned.timestamp())),
        Err(_) => Err(format!(
            "'{text}' is no time; expected -1h (ago), 14:30, 2026-11-30T14:00 or seconds since 1970"
        )),
    }
}

#[allow(clippy::cast_precision_loss)] // microseconds of today fit
fn seconds_of(instant: Timestamp) -> f64 {
    instant.as_microsecond() as f64 / 1e6
}

#[allow(clippy::cast_possible_truncation)]
fn zoned(seconds: f64) -> Option<jiff::ZonedDateTime> {
    Timestamp::from_microsecond((seconds * 1e6) as i64)
        .ok()
        .map(|instant| instant.to_zoned_datetime(TimeZone::system()))
}

/// `2026-11-30T14:00:00.123456`, local; the number itself if it is no time of this calendar.
#[must_use]
pub fn iso(seconds: f64) -> String {
    zoned(seconds).map_or_else(
        || seconds.to_string(),
        |zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string(),
    )
}

/// `2026-11-30T14:00:00`, local.
#[must_use]
pub fn iso_seconds(seconds: f64) -> String {
    zoned(seconds).map_or_else(
        || seconds.to_string(),
        |zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
    )
}

/// `2026-11-30T14:00:00+01:00`, local; for tables beside whose times are others, of another zone.
#[must_use]
pub fn zoned_seconds(seconds: f64) -> String {
    zoned(seconds).map_or_else(
        || seconds.to_string(),
        |zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    )
}

/// `Nov30 14:00`, local: the short form of listings.
#[must_use]
pub fn short(seconds: f64) -> String {
    strftime(seconds, "%b%d %H:%M").unwrap_or_default()
}

/// A point in time, local, as a format of strftime(3) says; the number itself if it is no time of this calendar.
///
/// # Errors
/// What is wrong with the format.
pub fn strftime(seconds: f64, format: &str) -> Result<String, String> {
    let Some(zoned) = zoned(seconds) else {
        return Ok(seconds.to_string());
    };
    jiff::fmt::strtime::format(format, &zoned).map_err(|error| format!("'{format}': {error}"))
}

/// A duration with four significant digits at most and the largest fitting unit: `0.25s`, `12.3s`, `1.5m`, `2h`, `3.25d`.
#[must_use]
pub fn human(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 60.0 => (s, 's'),
        s if s < 3600.0 => (s / 60.0, 'm'),
        s if s < 86400.0 => (s / 3600.0, 'h'),
        s => (s / 86400.0, 'd'),
    };
    let decimals = match value {
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    let mut text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text.push(unit);
    text
}

/// `0:01:30`, with days before it when there are some: `2-00:00:05`.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn clock(seconds: f64) -> String {
    let total = seconds.max(0.0) as u64;
    let (days, rest) = (total / 86400, total % 86400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 {
        format!("{days}-{hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_without_a_unit_is_minutes() {
        assert_eq!(time_limit("10"), Ok(600.0));
        assert_eq!(time_limit("10m"), Ok(600.0));
        assert_eq!(time_limit("90s"), Ok(90.0));
        assert_eq!(time_limit("1.5h"), Ok(5400.0));
        assert_eq!(time_limit("inf"), Ok(0.0));
        for bad in ["", "x", "-1", "5q", "1 h", "nan"] {
            assert!(time_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_those_of_rfc_23() {
        assert_eq!(duration("2ms"), Ok(0.002));
        assert_eq!(duration("30"), Ok(30.0));
        assert_eq!(duration("1.2h"), Ok(4320.0));
        assert_eq!(duration("5d"), Ok(432_000.0));
        assert_eq!(duration("Infinity"), Ok(f64::INFINITY));
        assert!(finite("inf").is_err());
    }

    #[test]
    fn points_in_time_are_relative_numbers_or_dates() {
        let now = 1_700_000_000.0;
        assert_eq!(instant("-1h", now), Ok(now - 3600.0));
        assert_eq!(instant("1h", now), Ok(now - 3600.0));
        assert_eq!(instant("1699999999.5", now), Ok(1_699_999_999.5));
        assert_eq!(instant("2023-11-14T22:13:20Z", now), Ok(now));
        assert_eq!(instant("now", now), Ok(now));
        assert!(instant("2023-11-14", now).is_ok());
        assert!(instant("12:30", now).is_ok());
        assert!(
            instant("yesterdayish", now)
                .unwrap_err()
                .contains("'yesterdayish' is no time")
        );
    }

    #[test]
    fn a_time_is_written_as_a_format_says() {
        assert_eq!(strftime(0.0, "%Y").unwrap().len(), 4);
        assert_eq!(strftime(1.5, "at %M").unwrap(), "at 00");
        assert!(strftime(0.0, "%").unwrap_err().starts_with("'%': "));
    }

    #[test]
    fn durations_read_well() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.25, "0.25s"),
            (12.345, "12.35s"),
            (60.0, "1m"),
            (90.0, "1.5m"),
            (7200.0, "2h"),
            (280_800.0, "3.25d"),
        ] {
            assert_eq!(human(seconds), text);
        }
        assert_eq!(clock(90.0), "0:01:30");
        assert_eq!(clock(172_805.0), "2-00:00:05");
    }
}
