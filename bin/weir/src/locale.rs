//! What the user's locale can show: decides between `ƒ` and `f` in front of a job id.
//!
//! Read from the environment as setlocale(3) does: `LC_ALL`, else `LC_CTYPE`, else `LANG`; an empty value counts as unset.

use std::ffi::OsString;

/// True if the locale's character set is UTF-8.
#[must_use]
pub fn is_utf8() -> bool {
    names_utf8(|name| std::env::var_os(name))
}

/// [`is_utf8`] with the environment as an argument.
#[must_use]
pub fn names_utf8(var: impl Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(var)
        .find(|value| !value.is_empty());
    locale.is_some_and(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(vars: &[(&str, &str)]) -> bool {
        names_utf8(|name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        assert!(utf8(&[("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", "en_US.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8")]));
        assert!(!utf8(&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")]));
        assert!(!utf8(&[]));
    }
}
