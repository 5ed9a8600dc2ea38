//! The error of a request that no machine of an engine has answered.

use gannet_meta::EngineError;

/// The error after all machines were asked: they were silent, refused, or are none that can answer. A refusal counts
/// when none was silent: one machine alone may be set up wrongly, while another is late.
pub(crate) fn no_answer(
    engine: &str,
    silent: Vec<String>,
    refusals: Vec<String>,
    others: Vec<String>,
) -> EngineError {
    if silent.is_empty() && !refusals.is_empty() {
        return EngineError::Refused(refusals.join("; "));
    }
    let all = [silent, refusals, others].concat().join("; ");
    EngineError::Unavailable(format!("{engine} does not answer ({all})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_when_no_machine_is_silent() {
        let some = |text: &str| vec![text.to_owned()];
        let late = no_answer("etcd", some("a: late"), some("b: refused"), Vec::new());
        assert!(matches!(&late, EngineError::Unavailable(_)));
        assert_eq!(
            late.to_string(),
            "etcd does not answer (a: late; b: refused)"
        );
        let refused = no_answer("etcd", Vec::new(), some("b: refused"), some("c: standby"));
        assert!(matches!(&refused, EngineError::Refused(_)));
        assert_eq!(refused.to_string(), "b: refused");
        let none = no_answer("etcd", Vec::new(), Vec::new(), some("c: standby"));
        assert!(matches!(none, EngineError::Unavailable(_)));
    }
}
