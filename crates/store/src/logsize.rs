//! How long the log is, without reading it: the size of some of its rows stands for all.

use job::Seq;
use rusqlite::OptionalExtension as _;

use crate::error::{ReadError, is_damage};
use crate::reader::Reader;
use crate::rows::seq_to_sql;

/// Rows looked at.
const SAMPLES: u64 = 64;

impl Reader {
    /// Bytes of the lines after `floor` and up to `newest`, about.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn log_bytes(&self, floor: Seq, newest: Seq) -> Result<u64, ReadError> {
        let entries = newest.0.saturating_sub(floor.0);
        let (mut seen, mut bytes) = (0, 0);
        // The length stands in the row's header: its pages are not read.
        let mut row = self.db.prepare_cached(
            "SELECT last_seq - first_seq + 1, octet_length(lines) FROM log WHERE last_seq > ?1 ORDER BY last_seq LIMIT 1",
        )?;
        for sample in 0..SAMPLES.min(entries) {
            let after = Seq(floor.0 + entries / SAMPLES.min(entries) * sample);
            let found = row
                .query_row([seq_to_sql(after)], |row| {
                    Ok((
                        row.get::<_, i64>(0).unwrap_or(0),
                        row.get::<_, i64>(1).unwrap_or(0),
                    ))
                })
                .optional();
            let found = match found {
                // What cannot be read has no size; whoever reads the log is told.
                Err(error) if is_damage(&error) => None,
                found => found?,
            };
            let (of, long) = found.unwrap_or_default();
            seen += of.unsigned_abs();
            bytes += long.unsigned_abs();
        }
        let each = bytes as f64 / seen.max(1) as f64;
        Ok((each * entries as f64) as u64)
    }
}
