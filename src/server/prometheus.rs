//! Prometheus' text format, version 0.0.4: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::Write;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Observations counted by size. Counts are of each bucket alone; the format adds them up.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bounds, ascending; a last bucket without one follows.
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }
}

/// The text of all metrics, written one after the other.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

type Labels<'a> = [(&'a str, &'a str)];

impl Page {
    pub fn counter(&mut self, name: &str, help: &str) {
        self.head(name, help, "counter");
    }

    pub fn gauge(&mut self, name: &str, help: &str) {
        self.head(name, help, "gauge");
    }

    pub fn sample(&mut self, name: &str, labels: &Labels<'_>, value: f64) {
        let _ = writeln!(self.text, "{name}{} {}", labelled(labels), number(value));
    }

    /// A gauge or counter of one sample.
    pub fn single(&mut self, name: &str, help: &str, is_counter: bool, value: f64) {
        self.head(name, help, if is_counter { "counter" } else { "gauge" });
        self.sample(name, &[], value);
    }

    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        all: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
    ) {
        self.head(name, help, "histogram");
        for (value, histogram) in all {
            let mut total = 0;
            for (index, count) in histogram.counts.iter().enumerate() {
                total += count;
                let bound = histogram.bounds.get(index).map_or("+Inf".to_owned(), |bound| number(*bound));
                self.sample(&format!("{name}_bucket"), &[(label, value), ("le", &bound)], total as f64);
            }
            self.sample(&format!("{name}_sum"), &[(label, value)], histogram.sum);
            self.sample(&format!("{name}_count"), &[(label, value)], total as f64);
        }
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

fn labelled(labels: &Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_the_format_says() {
        let mut page = Page::default();
        page.counter("a_total", "How many.");
        page.sample("a_total", &[("path", "a\"b\\c\nd"), ("status", "200")], 3.0);
        page.single("b", "Size.", false, 0.5);
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        // A bound belongs to its bucket.
        for value in [0.05, 0.1, 0.5, 7.0] {
            histogram.observe(value);
        }
        page.histograms("c_seconds", "Time.", "lane", [("cpu", &histogram)]);
        let expected = r##"# HELP a_total How many.
# TYPE a_total counter
a_total{path="a\"b\\c\nd",status="200"} 3
# HELP b Size.
# TYPE b gauge
b 0.5
# HELP c_seconds Time.
# TYPE c_seconds histogram
c_seconds_bucket{lane="cpu",le="0.1"} 2
c_seconds_bucket{lane="cpu",le="1"} 3
c_seconds_bucket{lane="cpu",le="+Inf"} 4
c_seconds_sum{lane="cpu"} 7.65
c_seconds_count{lane="cpu"} 4
"##;
        assert_eq!(page.finish(), expected);
    }
}
