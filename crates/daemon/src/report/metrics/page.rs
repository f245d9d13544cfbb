//! The text of metrics while it is being written.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;

pub(super) type Label = (&'static str, String);
pub(super) type Row = (Vec<Label>, f64);

pub(super) struct Page<'e> {
    encoder: DescriptorEncoder<'e>,
}

impl<'e> Page<'e> {
    pub(super) fn new(encoder: DescriptorEncoder<'e>) -> Self {
        Self { encoder }
    }

    /// A family of gauges; without rows it is left out.
    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = Row>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let kind = MetricType::Gauge;
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in rows {
            match labels.is_empty() {
                true => family.encode_gauge(&value)?,
                false => family.encode_family(&labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    /// One gauge, if there is a value.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        self.gauges(name, help, value.map(|value| (Vec::new(), value)))
    }

    /// One point in time, if there is one.
    pub(super) fn time(&mut self, name: &str, help: &str, at: Option<Timestamp>) -> fmt::Result {
        self.gauge(name, help, at.map(super::families::seconds))
    }

    /// Facts in labels only. A label without a value is left out.
    pub(super) fn info(&mut self, name: &str, help: &str, labels: Vec<Label>) -> fmt::Result {
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<Label> = labels.collect();
        if labels.is_empty() {
            return Ok(());
        }
        let kind = MetricType::Info;
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        family.encode_info(&labels)
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        family.encode_counter::<Vec<Label>, f64, f64>(&value, None)
    }

    pub(super) fn metric(
        &mut self,
        name: &str,
        help: &str,
        metric: &impl EncodeMetric,
    ) -> fmt::Result {
        let kind = metric.metric_type();
        metric.encode(self.encoder.encode_descriptor(name, help, None, kind)?)
    }
}
