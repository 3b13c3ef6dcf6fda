//! What of the services is answered by other parts of the process than the list: those that the loop has, and a test of the loop may not.

use bytes::Bytes;
use wire::{Cred, errno};

use crate::{
    core::Info,
    peer::{Caller, Refusal},
};

/// Makes tokens for HTTP.
pub(crate) trait HttpTokens: std::fmt::Debug + Send {
    /// The answer's payload.
    ///
    /// # Errors
    /// The request makes no sense.
    fn token(&self, cred: Cred, payload: &[u8]) -> Result<Bytes, Refusal>;
}

impl Info {
    /// `job-info.http-token`.
    pub(crate) fn http_token(&self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let Some(tokens) = &self.http_tokens else {
            let text = "this instance serves no HTTP; start it with --http=127.0.0.1:0";
            return Err(Refusal::new(errno::ENOSYS, text));
        };
        let answer = tokens.token(caller.cred(), payload)?;
        self.out.respond(caller, Some(answer));
        Ok(())
    }
}
