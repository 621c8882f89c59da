//! The steps that Redis takes at once, as scripts.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, ScriptInvocation};

/// What a reserved key's value begins with.
pub(super) const RESERVED: &str = "reserved:";
pub(super) const FIRST: &str = "first";
pub(super) const BUSY: &str = "busy";

/// value, milliseconds, what reserved values begin with
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('GET', KEYS[1])
if not held then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 'first'
elseif string.sub(held, 1, #ARGV[3]) == ARGV[3] then
  return 'busy'
end
return 'done'",
    )
});

/// owner's value, milliseconds
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0",
    )
});

/// owner's value, new value, milliseconds. A lease that ran out is no reason to have the effect again, if nobody has
/// begun to.
static CONFIRM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('GET', KEYS[1])
if not held or held == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0",
    )
});

/// owner's value. A lease may have run out, and the key be another's by now.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return redis.status_reply('OK')",
    )
});

/// A script with its key and arguments.
pub(super) struct Step(pub(super) ScriptInvocation<'static>);

impl Step {
    /// Puts a value under a key that is free.
    pub(super) fn take(key: &str, value: &str, time: Duration) -> Self {
        let mut step = Self::new(&TAKE, key, value).for_time(time);
        step.0.arg(RESERVED);
        step
    }

    pub(super) fn renew(key: &str, owned: &str, time: Duration) -> Self {
        Self::new(&RENEW, key, owned).for_time(time)
    }

    pub(super) fn confirm(key: &str, owned: &str, value: &str, time: Duration) -> Self {
        let mut step = Self::new(&CONFIRM, key, owned);
        step.0.arg(value);
        step.for_time(time)
    }

    pub(super) fn release(key: &str, owned: &str) -> Self {
        Self::new(&RELEASE, key, owned)
    }

    fn new(script: &'static Script, key: &str, value: &str) -> Self {
        let mut invocation = script.key(key);
        invocation.arg(value);
        Self(invocation)
    }

    /// Redis refuses a time of nothing, and one past the end of its calendar.
    fn for_time(mut self, time: Duration) -> Self {
        const MILLIS_MAX: u128 = 1000 * 60 * 60 * 24 * 365 * 100;
        self.0
            .arg(time.as_millis().clamp(1, MILLIS_MAX).to_string());
        self
    }
}
