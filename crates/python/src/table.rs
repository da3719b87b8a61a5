//! Tables of results for data frames, over Arrow's PyCapsule interface: polars, pandas and pyarrow
//! take them without a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::StringBuilder;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
use pyo3::exceptions::{PyImportError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use serde_json::Value;
use weftline_core::{Bitrate, ByteCount};
use weftline_scenario::{Sample, SeriesReader};

use crate::{results_error, wrong};

/// The columns that come first, before those that a sweep varied and all others in order.
const FIRST: [&str; 6] = ["world", "scenario", "scheme", "congestion", "workload", "seed"];

/// A table with named columns.
#[pyclass(frozen)]
pub(crate) struct Table(RecordBatch);

#[pymethods]
impl Table {
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// A column as a list, with `None` where a row has no value.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.0.column_by_name(name).ok_or_else(|| {
            let known = self.column_names().join(", ");
            PyKeyError::new_err(format!("there is no column '{name}'; there are: {known}"))
        })?;
        let any = column.as_any();
        if let Some(values) = any.downcast_ref::<Float64Array>() {
            PyList::new(py, values.iter().collect::<Vec<_>>())
        } else if let Some(values) = any.downcast_ref::<Int64Array>() {
            PyList::new(py, values.iter().collect::<Vec<_>>())
        } else if let Some(values) = any.downcast_ref::<UInt64Array>() {
            PyList::new(py, values.iter().collect::<Vec<_>>())
        } else if let Some(values) = any.downcast_ref::<BooleanArray>() {
            PyList::new(py, values.iter().collect::<Vec<_>>())
        } else if let Some(values) = any.downcast_ref::<StringArray>() {
            PyList::new(py, values.iter().collect::<Vec<_>>())
        } else {
            Err(wrong(format!("the column '{name}' is of an unknown type")))
        }
    }

    /// As a pandas data frame; needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let frame = slf
            .py()
            .import("pyarrow")
            .and_then(|pyarrow| pyarrow.call_method1("table", (slf,))?.call_method0("to_pandas"));
        frame.map_err(|error| without(slf.py(), error, "pandas and pyarrow"))
    }

    /// As a polars data frame; needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let frame = slf.py().import("polars").and_then(|it| it.call_method1("DataFrame", (slf,)));
        frame.map_err(|error| without(slf.py(), error, "polars"))
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A reader that wants other types converts them itself, as the interface allows.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// What is said where a module of data frames is not there.
fn without(py: Python<'_>, error: PyErr, modules: &str) -> PyErr {
    if !error.is_instance_of::<PyImportError>(py) {
        return error;
    }
    let remedy =
        format!("this needs {modules}; in the sources, pip install './python[frames]' ({error})");
    PyImportError::new_err(remedy)
}

impl Table {
    fn new(columns: Vec<(String, ArrayRef)>) -> PyResult<Self> {
        let field = |(name, column): &(String, ArrayRef)| {
            Field::new(name, column.data_type().clone(), true)
        };
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        RecordBatch::try_new(Arc::new(schema), columns).map(Self).map_err(wrong)
    }

    /// Wide: `time_s`, then a column for each metric and for each `path.metric`.
    pub(crate) fn of_series<'a>(samples: impl Iterator<Item = Sample<'a>>) -> PyResult<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut values: Vec<BTreeMap<u64, f64>> = Vec::new();
        let mut times = BTreeSet::new();
        for Sample { time_s, path, metric, value } in samples {
            let name = match path {
                "" => metric.to_owned(),
                path => format!("{path}.{metric}"),
            };
            let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                values.push(BTreeMap::new());
                names.len() - 1
            });
            let time = (time_s * 1e6).round() as u64;
            times.insert(time);
            values[place].insert(time, value);
        }
        let time: Float64Array = times.iter().map(|&time| Some(time as f64 / 1e6)).collect();
        let mut columns: Vec<(String, ArrayRef)> = vec![("time_s".to_owned(), Arc::new(time))];
        for (name, values) in names.into_iter().zip(values) {
            let column: Float64Array = times.iter().map(|time| values.get(time).copied()).collect();
            columns.push((name, Arc::new(column)));
        }
        Self::new(columns)
    }

    /// Long, as `series.csv`: `time_s`, `run`, `path`, `metric`, `value`. `numbers` are those that the
    /// runs get, by their numbers in the file; others are left out.
    pub(crate) fn of_rows(
        mut reader: SeriesReader,
        numbers: &BTreeMap<usize, usize>,
    ) -> PyResult<Self> {
        let mut rows = Long::default();
        while let Some(row) = reader.next_row().map_err(|error| results_error(&error))? {
            if let Some(&number) = numbers.get(&row.run) {
                rows.add(number, &row.sample);
            }
        }
        rows.table()
    }

    /// The same of runs.
    pub(crate) fn of_runs<'a>(
        runs: impl Iterator<Item = impl Iterator<Item = Sample<'a>>>,
    ) -> PyResult<Self> {
        let mut rows = Long::default();
        for (number, samples) in runs.enumerate() {
            samples.for_each(|sample| rows.add(number, &sample));
        }
        rows.table()
    }
}

/// The columns of a table of time series.
#[derive(Default)]
struct Long {
    times: Vec<f64>,
    runs: Vec<i64>,
    paths: StringBuilder,
    metrics: StringBuilder,
    values: Vec<f64>,
}

impl Long {
    fn add(&mut self, run: usize, sample: &Sample<'_>) {
        self.times.push(sample.time_s);
        self.runs.push(i64::try_from(run).unwrap_or(i64::MAX));
        self.paths.append_value(sample.path);
        self.metrics.append_value(sample.metric);
        self.values.push(sample.value);
    }

    fn table(mut self) -> PyResult<Table> {
        let columns: [(&str, ArrayRef); 5] = [
            ("time_s", Arc::new(Float64Array::from(self.times))),
            ("run", Arc::new(Int64Array::from(self.runs))),
            ("path", Arc::new(self.paths.finish())),
            ("metric", Arc::new(self.metrics.finish())),
            ("value", Arc::new(Float64Array::from(self.values))),
        ];
        Table::new(columns.map(|(name, column)| (name.to_owned(), column)).into())
    }
}

/// Records, each a JSON text, as a table with a row for each: parts of a record are columns with a
/// dot in their names, those of a path or flow with its name, and what a sweep varied are numbers in
/// base units where they are rates (bits a second), sizes (bytes), times (seconds) or numbers.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, records: Vec<String>) -> PyResult<Table> {
    py.detach(|| of_records(&records))
}

fn of_records(records: &[String]) -> PyResult<Table> {
    let mut rows = Vec::new();
    for record in records {
        let Value::Object(record) = serde_json::from_str(record).map_err(wrong)? else {
            return Err(wrong("a record is a JSON object"));
        };
        let mut row = BTreeMap::new();
        let mut swept = BTreeMap::new();
        for (key, value) in record {
            match (key.as_str(), value) {
                ("case", Value::Object(case)) => {
                    let text = |value: Value| value.as_str().map(str::to_owned);
                    swept.extend(case.into_iter().filter_map(|(key, v)| Some((key, text(v)?))));
                }
                (_, value) => flatten(key, value, &mut row),
            }
        }
        rows.push((row, swept));
    }
    let swept: BTreeSet<&String> = rows.iter().flat_map(|(_, swept)| swept.keys()).collect();
    let keys: BTreeSet<&String> = rows.iter().flat_map(|(row, _)| row.keys()).collect();
    // What has parts in another record is no column of its own.
    let has_parts = |key: &str| {
        let inner = format!("{key}.");
        keys.range(inner.clone()..).next().is_some_and(|next| next.starts_with(&inner))
    };
    let of_row = |key: &str| {
        let values: Vec<_> = rows.iter().map(|(row, _)| row.get(key)).collect();
        match key {
            // Of which there is none as a rule.
            "error" => (key.to_owned(), texts(&values)),
            _ => (key.to_owned(), column(&values)),
        }
    };
    let mut columns: Vec<_> = FIRST.into_iter().map(of_row).collect();
    for key in swept {
        let values: Vec<_> =
            rows.iter().map(|(_, case)| case.get(key).map(String::as_str)).collect();
        columns.push((key.clone(), quantities(&values)));
    }
    let others = keys.iter().filter(|key| !FIRST.contains(&key.as_str()) && !has_parts(key));
    columns.extend(others.map(|key| of_row(key)));
    Table::new(columns)
}

/// Puts a value, or its parts, into a row.
fn flatten(key: String, value: Value, row: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(parts) => {
            for (part, value) in parts {
                flatten(format!("{key}.{part}"), value, row);
            }
        }
        Value::Array(items) if items.iter().all(|item| item["name"].is_string()) => {
            for item in items {
                let Value::Object(mut parts) = item else { continue };
                let name = parts.remove("name").unwrap_or_default();
                let key = format!("{key}.{}", name.as_str().unwrap_or_default());
                flatten(key, Value::Object(parts), row);
            }
        }
        value => {
            row.insert(key, value);
        }
    }
}

/// The narrowest column that holds all the values.
fn column(values: &[Option<&Value>]) -> ArrayRef {
    let values: Vec<_> =
        values.iter().map(|value| value.filter(|value| !value.is_null())).collect();
    let all = |is: fn(&Value) -> bool| values.iter().flatten().all(|value| is(value));
    if values.iter().flatten().next().is_none() {
        // What is a number as a rule, such as a time that no run came to.
        Arc::new(Float64Array::new_null(values.len()))
    } else if all(Value::is_i64) {
        Arc::new(values.iter().map(|value| value.and_then(Value::as_i64)).collect::<Int64Array>())
    } else if all(Value::is_u64) {
        // Seeds may be above 2^63.
        Arc::new(values.iter().map(|value| value.and_then(Value::as_u64)).collect::<UInt64Array>())
    } else if all(Value::is_number) {
        let number = |value: &Option<&Value>| value.and_then(Value::as_f64);
        Arc::new(values.iter().map(number).collect::<Float64Array>())
    } else if all(Value::is_boolean) {
        let boolean = |value: &Option<&Value>| value.and_then(Value::as_bool);
        Arc::new(values.iter().map(boolean).collect::<BooleanArray>())
    } else {
        texts(&values)
    }
}

/// A column of texts.
fn texts(values: &[Option<&Value>]) -> ArrayRef {
    let text = |value: &Option<&Value>| {
        let value = value.filter(|value| !value.is_null())?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    Arc::new(values.iter().map(text).collect::<StringArray>())
}

/// Texts of one kind of quantity as numbers in its base unit; texts where they are of no kind.
fn quantities(texts: &[Option<&str>]) -> ArrayRef {
    let kinds: [fn(&str) -> Option<f64>; 4] = [
        |text| text.parse().ok(),
        |text| Some(text.parse::<Bitrate>().ok()?.as_bps() as f64),
        |text| Some(text.parse::<ByteCount>().ok()?.as_u64() as f64),
        |text| humantime::parse_duration(text).ok().as_ref().map(Duration::as_secs_f64),
    ];
    for kind in kinds {
        if texts.iter().flatten().all(|text| kind(text).is_some()) {
            return Arc::new(
                texts.iter().map(|text| text.and_then(kind)).collect::<Float64Array>(),
            );
        }
    }
    Arc::new(texts.iter().copied().collect::<StringArray>())
}
