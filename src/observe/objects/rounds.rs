//! A look that fetches the lists that it wants, and those that follow from them: of a healthy cluster that is little.

use jiff::Timestamp;
use kube::Client;
use windrow_harvester::incidents::{
    DetectorResult, Diagnosis, MOST_ROUNDS, diagnose, look, wanted,
};
use windrow_harvester::objects::Objects;

use super::{Room, ask};

/// Judges what is there, and again with every list that was wanted. Those stay in `objects`.
pub async fn look_in_rounds(
    client: &Client,
    objects: &mut Objects,
    room: &mut Room,
    judge: impl Fn(&Objects) -> Vec<DetectorResult>,
) -> Vec<DetectorResult> {
    let mut looked = judge(objects);
    for _ in 0..MOST_ROUNDS {
        let kinds = wanted(&looked);
        if kinds.is_empty() {
            break;
        }
        ask(client, &kinds, objects, room).await;
        looked = judge(objects);
    }
    looked
}

/// Looks for every known incident, for a person.
pub async fn diagnosed(client: &Client, now: Timestamp) -> Diagnosis {
    let (mut objects, mut room) = (Objects::to_be_asked(), Room::of_a_person());
    look_in_rounds(client, &mut objects, &mut room, |objects| {
        look(objects, now)
    })
    .await;
    diagnose(&objects, now)
}
