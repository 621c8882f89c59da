//! A broker that refuses single records: Kafka itself, on a topic that takes none from the past.

use postrider_testkit::kafka::{Kafka, fresh_topic_name};

use crate::binary::{SettingsOnDisk, Talkie, operate};
use crate::world::{World, message};

/// The producer lingers, so that every record is of the past when it reaches the broker.
const SETTINGS: &str = "interval_ms = 20\nlinger_ms = 20\nmax_retries = 3\nbackoff_base_ms = 200";

/// Kafka's own setting, in milliseconds: how old a record may be.
const AGE_MAX: &str = "message.timestamp.before.max.ms";

/// Notes what a row looks like after each change of its status.
const NOTE_CHANGES: &str = "CREATE TABLE changes (n bigserial, key text, status text, retry_count int, last_error text, \
       attempted bool, wait interval); \
     CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       INSERT INTO changes (key, status, retry_count, last_error, attempted, wait) \
       VALUES (NEW.key, NEW.status, NEW.retry_count, NEW.last_error, NEW.last_attempt_at IS NOT NULL, \
         NEW.next_attempt_at - clock_timestamp()); \
       RETURN NULL; END $$; \
     CREATE TRIGGER note_change AFTER UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION note_change()";

/// A2-04, A2-05: each refusal by Kafka is `failed`, counted and kept, with a next attempt in the future and waits that do not
/// get shorter. After more of them than there are retries the record is `dead_lettered`: stored, and never claimed again, also
/// when the topic takes records again. Then an operator resends it, and it is published.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kafka_refuses_waits_longer_each_time_and_is_dead_after_the_last() {
    let (world, kafka, topic) = (World::new().await, Kafka::shared(), fresh_topic_name());
    kafka.create_topic(&topic, 1, &[(AGE_MAX, "0")]).await;
    world.database.execute(NOTE_CHANGES).await;
    let settings = SettingsOnDisk::new(SETTINGS);
    let talkie = Talkie::spawn(&world, &settings, &topic, &["app"]);
    assert_eq!(talkie.post(&message("refused", "hello")).await.0, 202);
    world.until_state("refused", "dead_lettered 4").await;

    let failures = "SELECT concat_ws(' ', status, retry_count, attempted, wait > interval '0', last_error ~ '(?i)timestamp') \
                    FROM changes WHERE status = 'failed' ORDER BY n";
    let expected = [1, 2, 3].map(|n| Some(format!("failed {n} t t t")));
    assert_eq!(world.database.texts(failures).await, expected);
    let waits = "SELECT bool_and(wait >= before)::text FROM (SELECT wait, lag(wait) OVER (ORDER BY n) AS before \
                 FROM changes WHERE status = 'failed') AS waits";
    assert_eq!(world.database.text(waits).await.as_deref(), Some("true"));
    let claims = "changes WHERE key = 'refused' AND status = 'publishing'";
    assert_eq!(world.database.count(claims).await, 4);
    assert_eq!(kafka.records(&topic).await, []);

    // The topic takes records again, and the dead one stays where it is.
    kafka.configure_topic(&topic, &[(AGE_MAX, "3600000")]).await;
    assert_eq!(talkie.post(&message("taken", "hello")).await.0, 202);
    world.until_state("taken", "published 0").await;
    assert_eq!(world.database.count(claims).await, 4);
    let state = world.state("refused").await;
    assert_eq!(state.as_deref(), Some("dead_lettered 4"));

    let resent = operate(&world, &settings, &["dead", "resend", "--all"]);
    assert_eq!(resent, "1 resent\n");
    world.until_state("refused", "published 0").await;
    assert_eq!(kafka.records(&topic).await.len(), 2);
    assert_eq!(talkie.interrupt().await, Some(0));
}
