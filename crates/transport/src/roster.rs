//! Changes of a client's paths, carried out in its connections under way.
//!
//! A path that is new is dialled; one whose role or cap is another goes on with these, at both
//! ends; one that is no longer there carries no new data, and its subflow is closed when what it
//! carries has arrived and another path is up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use weftline_core::wire::PolicyNote;
use weftline_core::{PathId, PathPolicy, Role};

use crate::client::Settings;
use crate::path::Dialer;
use crate::shared::Shared;

/// How often a path on its way out is looked at, and after how long beside another one it is closed
/// whatever it carries: that goes to the others then.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const RETIRE_TIME: Duration = Duration::from_secs(5);

/// Keeps an open connection's paths as the client's settings say, until it is over or the client
/// is gone. `running` are the tasks that keep its paths up.
pub(crate) async fn follow(
    dialer: Arc<Dialer>,
    mut running: Vec<(PathId, AbortHandle)>,
    mut settings: watch::Receiver<Arc<Settings>>,
) {
    let Some(shared) = dialer.connection().map(Arc::clone) else { return };
    let mut dialer = dialer.with(Arc::clone(dialer.settings()));
    loop {
        tokio::select! {
            changed = settings.changed() => if changed.is_err() { return },
            () = shared.ended() => return,
        }
        let now = Arc::clone(&settings.borrow_and_update());
        let before = Arc::clone(dialer.settings());
        if !now.shares_server(&before) {
            // Another server does not know this connection, which stays with the one it has.
            continue;
        }
        dialer = dialer.with(Arc::clone(&now));
        running.retain(|(id, task)| {
            let stays = now.ids.contains(id);
            if !stays {
                task.abort();
                tokio::spawn(retire(Arc::clone(&shared), *id, now.revision));
            }
            stays
        });
        for (index, &id) in now.ids.iter().enumerate() {
            let is_running = running.iter().any(|(other, _)| *other == id);
            let was = before.ids.iter().position(|other| *other == id);
            if !is_running
                || was.is_none_or(|was| before.note(was).policy != now.note(index).policy)
            {
                shared.change_policy(id, now.note(index));
            }
            if !is_running {
                shared.name_path(id, &now.paths[index].0.name);
                // Nobody waits for its news.
                let (reports, _) = mpsc::channel(1);
                let dialer = Arc::new(dialer.with(Arc::clone(&now)));
                let task = tokio::spawn(dialer.run_path(index, reports));
                running.push((id, task.abort_handle()));
            }
        }
    }
}

/// Closes a path's subflows when what they carry has arrived.
async fn retire(shared: Arc<Shared>, path: PathId, revision: u64) {
    let policy = PathPolicy { role: Role::Retired, cap: None };
    shared.change_policy(path, PolicyNote { revision, policy });
    let mut deadline = None;
    let mut received = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = shared.ended() => return,
        }
        if shared.policy(path).policy.role != Role::Retired {
            // It is wanted again.
            return;
        }
        let Some(carried) = shared.carried(path) else { return };
        if !carried.is_spare {
            continue;
        }
        let now = tokio::time::Instant::now();
        let is_late = *deadline.get_or_insert(now + RETIRE_TIME) <= now;
        // The peer's direction has run dry if nothing came since the last look.
        let is_dry = carried.outstanding == 0 && received == Some(carried.received);
        if is_dry || is_late {
            shared.close_path(path);
            return;
        }
        received = Some(carried.received);
    }
}
