//! A filter that is part of a query: compiled once, compared by its meaning.

use std::{hash::Hash, sync::Arc};

use bexpr::{Filter, Subject};

/// Steps of a filter that take as long as a look at one job.
const LOOK_STEPS: usize = 4;

/// A filter.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Its one text; the same for all that read as the same tree.
    text: Arc<str>,
    filter: Arc<Filter>,
}

impl PartialEq for Compiled {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Compiled {}

impl Hash for Compiled {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Compiled {
    /// Reads a filter; an empty text is none.
    ///
    /// # Errors
    /// The text a client is answered with.
    pub fn new(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let filter = bexpr::parse(text)
            .map_err(|error| format!("failed to create result paginator: {error}"))?;
        Ok(Some(Self {
            text: filter.to_string().into(),
            filter: Arc::new(filter),
        }))
    }

    /// Whether it lets this one pass. What that took is added to `looks`, which counts how often a simple filter could have been asked.
    ///
    /// # Errors
    /// The text a client is answered with.
    pub fn passes(&self, subject: &dyn Subject, looks: &mut usize) -> Result<bool, String> {
        let mut steps = 0;
        let passes = self.filter.eval_counting(subject, &mut steps);
        *looks += steps / LOOK_STEPS;
        passes.map_err(|error| format!("failed to read result page: {error}"))
    }

    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text.len() + self.filter.held_bytes()
    }

    /// The values of which a field must have one; see [`Filter::required`].
    #[must_use]
    pub fn required(&self, field: &str) -> Option<Vec<&str>> {
        self.filter.required(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_one_meaning_are_one_query() {
        let compiled = |text| Compiled::new(text).expect(text).expect(text);
        assert_eq!(
            compiled("Status==running"),
            compiled("( Status == \"running\" )")
        );
        assert_ne!(compiled("Status == running"), compiled("Status == dead"));
        assert_eq!(Compiled::new(""), Ok(None));
        let refused = Compiled::new("ID == my-job").expect_err("a hyphen");
        assert!(refused.starts_with(
            "failed to create result paginator: failed to read filter expression: 1:9 (8): "
        ));
    }
}
