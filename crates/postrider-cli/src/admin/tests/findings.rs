//! What a relay's store knows to be wrong is shown wherever somebody looks, and does not make the relay unready.

use async_trait::async_trait;
use postrider::core::operate::{
    Act, Actor, Audit, Audited, Cursor, DeadLetters, Diagnosis, Finding, Level, Limits, Page,
    ParkedKey, RecordFilter, Records, StoredRecord,
};
use postrider::core::{Backlog, Claim, OutboxStore, Purge, Record, RecordId, StoreError, Want};
use serde_json::Value;

use super::*;

/// A store with something to tell.
struct Telling(PostgresStore);

#[async_trait]
impl Purge for Telling {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.0.purge(keep, limit).await
    }
}

#[async_trait]
impl OutboxStore for Telling {
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError> {
        self.0.claim(want).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.0.open().await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.0.backlog().await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.0.ping().await
    }

    fn findings(&self) -> Vec<Finding> {
        let refused = |n: u32| {
            Finding::new(Level::Warning, format!("record {n}"), "no ".repeat(100_000))
                .remedy("mend the trigger")
        };
        (0..1_000).map(refused).collect()
    }
}

#[async_trait]
impl Records for Telling {
    async fn find(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<StoredRecord>, StoreError> {
        self.0.find(filter, from, limit).await
    }

    async fn read(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Record>, StoreError> {
        self.0.read(filter, from, limit).await
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, StoreError> {
        self.0.count(filter).await
    }

    async fn parked(&self, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        self.0.parked(limit).await
    }
}

#[async_trait]
impl DeadLetters for Telling {
    async fn resend(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        self.0.resend(ids, by).await
    }

    async fn discard(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        self.0.discard(ids, by).await
    }
}

#[async_trait]
impl Audit for Telling {
    async fn note(&self, by: &Actor, act: &Act) -> Result<(), StoreError> {
        self.0.note(by, act).await
    }

    async fn audited(
        &self,
        record: Option<&RecordId>,
        limit: u32,
    ) -> Result<Vec<Audited>, StoreError> {
        self.0.audited(record, limit).await
    }
}

#[async_trait]
impl Diagnosis for Telling {
    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.0.check().await
    }

    async fn diagnose(&self, limits: &Limits) -> Result<Vec<Finding>, StoreError> {
        self.0.diagnose(limits).await
    }
}

#[tokio::test]
async fn what_the_store_knows_is_in_readiness_and_in_the_diagnosis() {
    let (_outbox, managed) = TestOutbox::create_with(|store| Arc::new(Telling(store))).await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let ready = server.get("/readyz").await.text().await.unwrap();
    let diagnosis = server.get("/api/outboxes/orders/diagnosis").await;
    let diagnosis = diagnosis.text().await.unwrap();
    let told = |text: &str, path: &str| -> Vec<Value> {
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
        let body: Value = serde_json::from_str(text).unwrap();
        body.pointer(path).unwrap().as_array().unwrap().clone()
    };
    for findings in [
        told(&ready, "/outboxes/0/findings"),
        told(&diagnosis, "/findings"),
    ] {
        let of_records = findings
            .iter()
            .filter(|it| it["subject"].as_str().unwrap().starts_with("record "));
        assert_eq!(of_records.count(), 100);
        let first = findings
            .iter()
            .find(|it| it["subject"] == "record 0")
            .unwrap();
        assert_eq!(
            (&first["level"], &first["remedy"]),
            (&"warning".into(), &"mend the trigger".into())
        );
    }
}
