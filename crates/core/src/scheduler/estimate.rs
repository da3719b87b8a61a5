//! When bytes will be there: the one estimator of delivery.

use std::time::Duration;

use super::SendView;
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount};

/// Doublings of a window after which it is as good as without end.
const MOST_ROUNDS: u128 = 30;

impl SendView<'_> {
    /// How long until `bytes` more, given to the subflow now and to no other, have arrived.
    ///
    /// Until the congestion window is full they leave at once. Beyond it they wait for
    /// acknowledgements: the window doubles each round trip in slow start, else data leave at the
    /// path's rate. Nothing leaves sooner than the path's cap lets it.
    pub fn arrival(&self, subflow: &Subflow, bytes: u64) -> Duration {
        let capped = subflow.cap().and_then(|cap| cap.time_for(ByteCount::new(bytes)));
        let least = capped.map_or(Duration::ZERO, |time| way(subflow) + time);
        uncapped(self, subflow, bytes).max(least)
    }
}

/// How many bytes more, given to the subflow now and to no other, arrive within a time: at most what the
/// congestion window lets leave by then, as for [`SendView::arrival`], and what the path's rate brings
/// behind that which is queued.
pub(super) fn deliverable(view: &SendView<'_>, subflow: &Subflow, within: Duration) -> u64 {
    let (info, rtt) = (subflow.info(), subflow.present_rtt());
    let cwnd = info.cwnd.as_u64();
    let Some(spare) = within.checked_sub(way(subflow)) else { return 0 };
    // Without a window nothing is known yet.
    if cwnd == 0 {
        return u64::MAX;
    }
    let rate = view.rate(subflow);
    let by_window = if subflow.is_in_slow_start() || rate == Bitrate::default() {
        let rounds = spare.as_nanos() / rtt.as_nanos().max(1);
        cwnd.saturating_mul((2 << rounds.min(MOST_ROUNDS)) - 1)
    } else {
        cwnd.saturating_add(rate.bytes_in(spare).as_u64())
    };
    let by_rate = match rate == Bitrate::default() {
        true => u64::MAX,
        false => rate.bytes_in(within + back(subflow)).as_u64(),
    };
    by_window.min(by_rate).saturating_sub(subflow.queued())
}

fn uncapped(view: &SendView<'_>, subflow: &Subflow, bytes: u64) -> Duration {
    let (info, rtt) = (subflow.info(), subflow.present_rtt());
    let cwnd = info.cwnd.as_u64();
    let waiting = subflow.queued().saturating_add(bytes).saturating_sub(cwnd);
    let one_way = way(subflow);
    // Without a window nothing is known yet.
    if waiting == 0 || cwnd == 0 {
        return one_way;
    }
    if subflow.is_in_slow_start() {
        // cwnd × (2 + 4 + … + 2^k) covers what waits.
        let rounds = (waiting.div_ceil(cwnd) + 2).next_power_of_two().ilog2() - 1;
        return one_way + rtt * rounds;
    }
    let rate = match view.rate(subflow) {
        rate if rate == Bitrate::default() => Bitrate::from_transfer(ByteCount::new(cwnd), rtt),
        rate => rate,
    };
    let time = rate.time_for(ByteCount::new(waiting));
    one_way + time.unwrap_or(Duration::MAX / 4)
}

/// The rate of delivery, or what the congestion window lets through where that is more: a path that was
/// given little has delivered little, and one that was slow may have come back.
pub(super) fn rate_within_reach(view: &SendView<'_>, subflow: &Subflow) -> Bitrate {
    let window = Bitrate::from_transfer(subflow.info().cwnd, subflow.present_rtt());
    let rate = view.rate(subflow).max(window);
    subflow.cap().map_or(rate, |cap| cap.min(rate))
}

/// How long a segment takes that leaves now. Round-trip time above the minimum is taken for a queue
/// on the way there.
fn way(subflow: &Subflow) -> Duration {
    let rtt = subflow.present_rtt();
    rtt.saturating_sub(back(subflow))
}

/// How long an acknowledgement takes.
fn back(subflow: &Subflow) -> Duration {
    let (rtt, least) = (subflow.present_rtt(), subflow.info().min_rtt);
    if least.is_zero() { rtt / 2 } else { least.min(rtt) / 2 }
}

/// How long until a range is there that the subflow was given `age` ago, with `ahead` bytes up to
/// its end that have not been acknowledged: the way, or the queue before it at the path's rate, in
/// slow start at least that of its window. What is overdue takes as long again.
pub(super) fn remaining(
    view: &SendView<'_>,
    subflow: &Subflow,
    ahead: u64,
    age: Duration,
) -> Duration {
    let (info, rtt) = (subflow.info(), subflow.present_rtt());
    let back = back(subflow);
    let way = rtt.saturating_sub(back + age);
    let mut rate = view.rate(subflow).max(info.delivery_rate);
    if subflow.is_in_slow_start() && !rtt.is_zero() {
        rate = rate.max(Bitrate::from_transfer(info.cwnd, rtt));
    }
    let queue = rate.time_for(ByteCount::new(ahead));
    // Of what should have been there by now all that is known is that it takes longer: as long again.
    let overdue = if age > rtt { age } else { Duration::ZERO };
    way.max(queue.unwrap_or_default().saturating_sub(back)).max(overdue)
}
