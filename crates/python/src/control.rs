//! Congestion controls in Python: `wl.Control`.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weftline_congestion::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};
use weftline_core::{Bitrate, Instant};

use crate::halt::Own;

/// The largest window in segments that a control may set: 2^31 of them are more than any link holds.
const MOST_CWND: f64 = 2_147_483_648.0;

/// What a control learns from an acknowledgement.
#[pyclass(frozen, get_all)]
pub(crate) struct Ack {
    now: f64,
    delivered: u64,
    rtt_s: Option<f64>,
    srtt_s: f64,
    min_rtt_s: f64,
    prior_in_flight: u64,
    in_flight: u64,
    cwnd_limited: bool,
    phase: &'static str,
    newly_lost: u64,
    total_delivered: u64,
    total_lost: u64,
    una: u64,
    nxt: u64,
    delivery_rate: Option<f64>,
    app_limited: bool,
}

impl Ack {
    fn new(ack: &AckSample) -> Self {
        let interval = ack.rate.interval.as_secs_f64();
        Self {
            now: seconds(ack.now),
            delivered: ack.delivered,
            rtt_s: ack.rtt.as_ref().map(Duration::as_secs_f64),
            srtt_s: ack.srtt.as_secs_f64(),
            min_rtt_s: ack.min_rtt.as_secs_f64(),
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            cwnd_limited: ack.cwnd_limited,
            phase: match ack.phase {
                Phase::Open => "open",
                Phase::Recovery => "recovery",
                Phase::Loss => "loss",
            },
            newly_lost: ack.newly_lost,
            total_delivered: ack.total_delivered,
            total_lost: ack.total_lost,
            una: ack.una,
            nxt: ack.nxt,
            delivery_rate: (interval > 0.0).then(|| ack.rate.delivered as f64 / interval),
            app_limited: ack.rate.app_limited,
        }
    }
}

/// What a control learns when recovery begins.
#[pyclass(frozen, get_all)]
pub(crate) struct Loss {
    now: f64,
    in_flight: u64,
    srtt_s: f64,
    nxt: u64,
}

impl Loss {
    fn new(loss: &LossEvent) -> Self {
        let LossEvent { in_flight, nxt, .. } = *loss;
        Self { now: seconds(loss.now), in_flight, srtt_s: loss.srtt.as_secs_f64(), nxt }
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// A control in Python, and what it has said last.
#[derive(Debug)]
pub(crate) struct Control {
    own: Own,
    object: Option<Py<PyAny>>,
    cwnd: f64,
    ssthresh: f64,
    pacing_rate: Option<Bitrate>,
}

impl Control {
    pub(crate) fn new(own: &Own, class: &Py<PyAny>, config: &Config) -> Self {
        let mut control = Self {
            own: own.clone(),
            object: None,
            cwnd: config.initial_cwnd as f64,
            ssthresh: f64::INFINITY,
            pacing_rate: None,
        };
        let made = Python::attach(|py| class.call1(py, (config.mss, config.initial_cwnd)));
        control.object = made.map_err(|error| control.own.fail(error)).ok();
        control.tell(|_| Ok(()));
        control
    }

    /// Tells the object of something, and reads what it says then. What it raises ends the run.
    fn tell(&mut self, tell: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        let Some(object) = self.object.take() else { return };
        if !self.own.has_failed() {
            let told = Python::attach(|py| {
                let object = object.bind(py);
                tell(object)?;
                self.read(object)
            });
            told.unwrap_or_else(|error| self.own.fail(error));
        }
        self.object = Some(object);
    }

    /// Reads what the control says.
    fn read(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let (cwnd, ssthresh): (f64, f64) =
            (object.getattr("cwnd")?.extract()?, object.getattr("ssthresh")?.extract()?);
        if !(1.0..=MOST_CWND).contains(&cwnd) || ssthresh.is_nan() {
            return Err(PyValueError::new_err(format!(
                "a window is a number of segments from 1 to 2^31, not {cwnd}, and ssthresh a \
                 number, {ssthresh}"
            )));
        }
        let rate: Option<f64> = object.getattr("pacing_rate_mbps")?.extract()?;
        if let Some(rate) = rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err(PyValueError::new_err(format!(
                "pacing_rate_mbps is a number above 0, or None, which does not pace; not {rate}"
            )));
        }
        self.pacing_rate = rate.map(|rate| Bitrate::bps((rate * 1e6).max(1.0) as u64));
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
        Ok(())
    }
}

impl CongestionControl for Control {
    fn on_established(&mut self, srtt: Duration) {
        self.tell(|object| object.call_method1("on_established", (srtt.as_secs_f64(),)).map(drop));
    }

    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.tell(|object| object.call_method1("on_ack", (Ack::new(ack),)).map(drop));
    }

    fn on_congestion(&mut self, loss: &LossEvent, _: &Coupling<'_>) {
        self.tell(|object| object.call_method1("on_congestion", (Loss::new(loss),)).map(drop));
    }

    fn on_timeout(&mut self, loss: &LossEvent, first: bool, _: &Coupling<'_>) {
        self.tell(|object| object.call_method1("on_timeout", (Loss::new(loss), first)).map(drop));
    }

    fn on_recovery_end(&mut self, now: Instant) {
        self.tell(|object| object.call_method1("on_recovery_end", (seconds(now),)).map(drop));
    }

    fn on_spurious(&mut self) {
        self.tell(|object| object.call_method0("on_spurious").map(drop));
    }

    fn on_restart(&mut self, now: Instant) {
        self.tell(|object| object.call_method1("on_restart", (seconds(now),)).map(drop));
    }

    fn on_penalty(&mut self) {
        self.tell(|object| object.call_method0("on_penalty").map(drop));
    }

    fn on_unused_window(&mut self, cwnd: f64) {
        self.tell(|object| object.call_method1("on_unused_window", (cwnd,)).map(drop));
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        self.pacing_rate
    }
}
