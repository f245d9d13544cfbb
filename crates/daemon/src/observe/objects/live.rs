//! Objects from the API.

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::task::spawn_blocking;
use windrow_harvester::objects::{KindListing, ObjectKind, Objects, items, text};
use windrow_model::manifest::GroupKind;
use windrow_model::object::api_root;

use super::item::{complete, leave_out_unread};
use crate::apiserver::{
    self, ApiServer, LONGEST, ListBounds, ListForm, Pages, Reply, WhenExpired, if_found, within,
};
use crate::json_values::memory_of;
use crate::kubeconfig::KubeconfigFiles;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

const NO_ROOM: &str = "too large: the objects take more memory than there is for them";

/// How much more memory the objects of one look may take, in bytes, by an estimate. It is the only bound: a list may have
/// any number of objects.
#[derive(Debug)]
pub struct Room(usize);

impl Room {
    /// For the daemon: its unit has 512 MiB, and reading a page takes some of it too.
    pub const fn of_the_daemon() -> Self {
        Self(192 << 20)
    }

    /// For a user, who waits for the answer.
    pub const fn of_a_person() -> Self {
        Self(2 << 30)
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.0 = self.0.checked_sub(bytes).ok_or(NO_ROOM)?;
        Ok(())
    }
}

/// A client for kube-apiserver, once it answers.
///
/// # Errors
///
/// Why it does not answer.
pub async fn reach(
    api: &ApiServer,
    kubeconfig: impl Into<KubeconfigFiles>,
) -> Result<Client, String> {
    let client = api.client(kubeconfig).await?;
    let version = within(PATIENCE, client.apiserver_version()).await;
    match version {
        Ok(_) => Ok(client),
        Err(failure) => Err(failure.to_string()),
    }
}

/// `None` when there is no object at this path.
///
/// # Errors
///
/// Why it cannot be had.
pub async fn get_object(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let reply = apiserver::get(client, path, PATIENCE, LONGEST).await;
    if_found(reply.and_then(Reply::value)).map_err(|failure| failure.to_string())
}

pub async fn list(client: &Client, kinds: &[ObjectKind]) -> Objects {
    let mut objects = Objects::default();
    ask(client, kinds, &mut objects, &mut Room::of_a_person()).await;
    objects
}

/// Also lists these kinds, as far as there is room.
pub async fn ask(client: &Client, kinds: &[ObjectKind], objects: &mut Objects, room: &mut Room) {
    for kind in kinds {
        let found = all(client, *kind, room).await;
        objects.insert(kind.group_kind(), listed(found));
    }
}

/// Lists kinds without a known version and plural: discovery returns the paths of their objects.
pub async fn ask_by_name(
    client: &Client,
    kinds: &[GroupKind],
    objects: &mut Objects,
    room: &mut Room,
) {
    for kind in kinds {
        let found = by_name(client, kind, room).await;
        objects.insert(kind.clone(), listed(found));
    }
}

fn listed(found: Result<Vec<Value>, String>) -> KindListing {
    match found {
        Ok(items) => KindListing::Objects(items),
        Err(why) => KindListing::Unknown(why),
    }
}

async fn by_name(client: &Client, kind: &GroupKind, room: &mut Room) -> Result<Vec<Value>, String> {
    let version = match kind.group.as_str() {
        "" => "v1".to_owned(),
        group => match get_object(client, &format!("/apis/{group}")).await? {
            Some(served) => text(&served, "/preferredVersion/groupVersion").to_owned(),
            None => return Ok(Vec::new()),
        },
    };
    let root = api_root(&version);
    let served = get_object(client, &root).await?.unwrap_or_default();
    let resources = items(&served, "/resources").iter();
    let mut plurals = resources
        .filter(|one| text(one, "/kind") == kind.kind)
        .map(|one| text(one, "/name"))
        .filter(|name| !name.is_empty() && !name.contains('/'));
    match plurals.next() {
        Some(plural) => {
            pages(
                client,
                &format!("{root}/{plural}"),
                ("", ListForm::Objects),
                (&version, &kind.kind),
                // A user who names a kind may read every field of it.
                |_| {},
                room,
            )
            .await
        }
        // A kind that is not served has no objects.
        None => Ok(Vec::new()),
    }
}

async fn all(client: &Client, kind: ObjectKind, room: &mut Room) -> Result<Vec<Value>, String> {
    let version = kind.api_version();
    let named = (version.as_str(), kind.kind);
    let (kept, form) = match kind.kept_metadata() {
        Some(kept) => (Some(kept), ListForm::Metadata),
        None => (None, ListForm::Objects),
    };
    // If another server answers in place of kube-apiserver, no more is kept.
    let reduce = move |object: &mut Value| match kept {
        Some(kept) => kept.reduce(object),
        None => leave_out_unread(object),
    };
    let mut found = Vec::new();
    for path in kind.paths() {
        for query in kind.queries() {
            let asked = (*query, form);
            found.extend(pages(client, &path, asked, named, reduce, room).await?);
        }
    }
    Ok(found)
}

async fn pages(
    client: &Client,
    path: &str,
    (query, form): (&str, ListForm),
    named: (&str, &str),
    reduce: impl Fn(&mut Value) + Clone + Send + 'static,
    room: &mut Room,
) -> Result<Vec<Value>, String> {
    let mut items = Vec::new();
    let mut taken = 0;
    let read = async {
        let bounds = ListBounds::of(PATIENCE);
        let mut pages = Pages::new(path, query, form, bounds, WhenExpired::GoOn);
        while let Some(page) = if_found(pages.next_values(client).await)
            .map_err(|failure| failure.to_string())?
            .flatten()
        {
            for (item, bytes) in reduced(page.items, named, reduce.clone()).await? {
                room.take(bytes)?;
                taken += bytes;
                items.push(item);
            }
        }
        Ok(())
    };
    match read.await {
        Ok(()) => Ok(items),
        // Dropped objects leave their room to others.
        Err(why) => {
            room.0 += taken;
            Err(why)
        }
    }
}

/// The objects of a page as they are kept, each with its memory in bytes. The daemon's loop does not wait for it: users decide how much
/// there is to search for secrets in their objects.
async fn reduced(
    items: Vec<Value>,
    (version, kind): (&str, &str),
    reduce: impl Fn(&mut Value) + Send + 'static,
) -> Result<Vec<(Value, usize)>, String> {
    let (version, kind) = (version.to_owned(), kind.to_owned());
    let reduced = spawn_blocking(move || {
        let items = items.into_iter().map(|item| {
            let mut item = complete(item, &version, &kind);
            reduce(&mut item);
            let bytes = memory_of(&item);
            (item, bytes)
        });
        items.collect()
    });
    reduced.await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::apiserver::served_list::ServedList;

    async fn pods(served: ServedList, room: &mut Room) -> Result<Vec<Value>, String> {
        let mut objects = Objects::default();
        ask(&served.client(), &[ObjectKind::POD], &mut objects, room).await;
        let found = objects.all(ObjectKind::POD);
        found.map(<[Value]>::to_vec).map_err(|why| why.to_string())
    }

    #[tokio::test]
    async fn objects_for_which_there_is_no_room_are_unknown_and_leave_theirs_to_others() {
        let mut room = Room(1 << 20);
        assert_eq!(
            pods(ServedList::thirty(1000), &mut room)
                .await
                .unwrap()
                .len(),
            30
        );
        let left = room.0;
        assert!(left < (1 << 20) - 30 * 1000, "{left}");
        let why = pods(ServedList::thirty(50_000), &mut room)
            .await
            .unwrap_err();
        assert!(why.contains("too large"), "{why}");
        assert_eq!(room.0, left);
    }

    #[tokio::test]
    async fn what_a_person_asks_for_is_listed() {
        let client = ServedList::thirty(1).client();
        let objects = list(&client, &[ObjectKind::POD]).await;
        assert_eq!(objects.all(ObjectKind::POD).unwrap().len(), 30);
        assert!(
            objects.all(ObjectKind::NODE).is_err(),
            "it was not asked for"
        );
    }

    #[tokio::test]
    async fn of_large_objects_fewer_are_read_at_once() {
        // Thirty of them exceed one page.
        let read = pods(ServedList::thirty(1 << 19), &mut Room::of_the_daemon()).await;
        assert_eq!(read.unwrap().len(), 30);
        // This one exceeds a page.
        let giant = ServedList {
            objects: 1,
            ..ServedList::thirty(9 << 20)
        };
        let why = pods(giant, &mut Room::of_the_daemon()).await.unwrap_err();
        assert!(why.contains("too large"), "{why}");
    }

    #[tokio::test]
    async fn objects_with_very_many_values_take_no_more_memory_than_there_is() {
        let of_maps = |objects, maps| ServedList {
            objects,
            maps,
            ..ServedList::thirty(1)
        };
        // A megabyte of JSON takes 80. kube-apiserver accepts three.
        let why = pods(of_maps(1, 100_000), &mut Room::of_the_daemon()).await;
        assert!(why.unwrap_err().contains("more than 64 MiB of memory"));
        // Pages of smaller ones have fewer objects, and their memory is counted exactly.
        let mut room = Room::of_the_daemon();
        let read = pods(of_maps(30, 5000), &mut room).await;
        assert_eq!(read.unwrap().len(), 30);
        let why = pods(of_maps(30, 5000), &mut room).await.unwrap_err();
        assert!(why.contains(NO_ROOM), "{why}");
    }

    #[tokio::test]
    async fn no_number_of_objects_is_too_large_and_what_nothing_reads_takes_no_room() {
        let served = ServedList {
            objects: 30_000,
            ..ServedList::thirty(400)
        };
        let mut room = Room::of_the_daemon();
        let before = room.0;
        let pods = pods(served, &mut room).await.unwrap();
        assert_eq!(pods.len(), 30_000);
        assert!(pods[0].pointer("/spec/containers/0/env").is_none());
        let each = (before - room.0) / 30_000;
        assert!(each < 5 * 1024, "{each} bytes each");
    }

    #[tokio::test]
    async fn a_list_that_expires_while_it_is_read_goes_on_where_it_was() {
        let served = ServedList {
            objects: 1200,
            expires_at: 500,
            ..ServedList::thirty(1)
        };
        let pods = pods(served, &mut Room::of_a_person()).await.unwrap();
        let names: Vec<usize> = pods
            .iter()
            .map(|pod| text(pod, "/metadata/name").parse().unwrap())
            .collect();
        assert_eq!(names, (0..1200).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_kind_is_found_by_its_name_where_its_group_serves_it() {
        let serve = tower::service_fn(|request: Request<Body>| async move {
            let (status, body) = match request.uri().path() {
                "/apis/example.com" => {
                    let preferred = json!({"groupVersion": "example.com/v2"});
                    (200, json!({"preferredVersion": preferred}))
                }
                "/apis/example.com/v2" => {
                    let resource = |name: &str| json!({"name": name, "kind": "Widget"});
                    // A subresource can be of the same kind.
                    let resources = [resource("widgets/status"), resource("widgets")];
                    (200, json!({"resources": resources}))
                }
                "/apis/example.com/v2/widgets" => {
                    (200, json!({"items": [{"metadata": {"name": "a"}}]}))
                }
                _ => (404, json!({"kind": "Status", "code": 404})),
            };
            let body = Body::from(body.to_string().into_bytes());
            let response = Response::builder().status(status).body(body).unwrap();
            Ok::<_, Infallible>(response)
        });
        let client = Client::new(serve, "default");
        let [widget, gadget, other] = [
            ("example.com", "Widget"),
            ("example.com", "Gadget"),
            ("other.example", "Widget"),
        ]
        .map(|(group, kind)| GroupKind::new(group, kind));
        let kinds = [widget.clone(), gadget.clone(), other.clone()];
        let mut objects = Objects::default();
        ask_by_name(&client, &kinds, &mut objects, &mut Room::of_a_person()).await;
        let widgets = objects.list(&widget).unwrap();
        assert_eq!(text(&widgets[0], "/metadata/name"), "a");
        assert_eq!(text(&widgets[0], "/kind"), "Widget");
        for not_served in [gadget, other] {
            assert!(objects.list(&not_served).unwrap().is_empty());
        }
    }
}
