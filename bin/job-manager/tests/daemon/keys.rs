//! Submit keys, over the socket and on the disk: each user's own, batched look-ups, restarts.

use crate::peer::Peer;
use crate::world::{
    JOBSPEC, World, ids, int, ok, refused, soon, stats, submission, submit_many, value, wrap,
};
use serde_json::{Value, json};
use wire::{Cred, errno};

fn keyed(key: &str) -> Value {
    let mut payload = submission(16);
    payload["key"] = key.into();
    payload
}

fn of_guest(uid: u32, key: &str) -> Value {
    json!({"J": wrap(uid, JOBSPEC), "urgency": 16, "flags": 0, "key": key})
}

#[tokio::test]
async fn a_key_is_its_users_own_and_outlives_a_restart() {
    let world = World::new().await;
    let client = world.client().await;
    let (own, _) = ids(&ok(&client, "job-ingest.submit", keyed("k")).await);
    let mut of = Vec::new();
    for uid in [1001, 1002] {
        let mut guest = Peer::acting_as(&world, Cred::guest(uid)).await;
        let first = guest
            .call("job-ingest.submit", of_guest(uid, "k"))
            .await
            .unwrap();
        let again = guest
            .call("job-ingest.submit", of_guest(uid, "k"))
            .await
            .unwrap();
        assert_eq!(
            (&again["id"], &again["known"]),
            (&first["id"], &json!(true))
        );
        assert_eq!(first.get("known"), None);
        of.push(int(&first, "id"));
    }
    assert!(of[0] != of[1] && !of.contains(&own));
    let world = world.restart().await;
    let client = world.client().await;
    let again = ok(&client, "job-ingest.submit", keyed("k")).await;
    assert_eq!((int(&again, "id"), &again["known"]), (own, &json!(true)));
    let mut other = keyed("k");
    other["J"] = wrap(crate::world::own_uid(), &JOBSPEC.replace("true", "false")).into();
    let (errnum, text) = refused(&client, "job-ingest.submit", other).await;
    assert_eq!(errnum, errno::EEXIST);
    assert!(text.contains(&job::JobId(own).to_string()), "{text}");
    world.stop().await;
}

#[tokio::test]
async fn many_keys_at_once_are_looked_up_and_stored_together_and_others_do_not_wait() {
    let world = World::new().await;
    let client = world.client().await;
    let before = stats(&client).await;
    let mut replies = Vec::new();
    for at in 0..2000 {
        let payload = keyed(&format!("key {at}"));
        let reply = client.begin("job-ingest.submit", &payload);
        replies.push(reply.await.unwrap());
    }
    let mut made = Vec::new();
    for reply in replies {
        made.push(ids(&value(&soon(reply.json()).await.unwrap())).0);
    }
    assert!(made.is_sorted(), "in the order of their submission");
    let after = stats(&client).await;
    let commits = int(&after["manager"], "commits") - int(&before["manager"], "commits");
    assert!(
        commits < 1000,
        "{commits} commits for 2000 keys: they are not taken together"
    );
    // And those without a key.
    submit_many(&client, 100).await;
    world.stop().await;
}
