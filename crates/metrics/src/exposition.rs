//! What a reader gets: families of samples, added up over the sources.

use crate::{Busy, BusyList, ClientList, Counter, Gauge, Latency, LatencyReading};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How a family's samples behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow.
    Counter,
    /// They rise and fall.
    Gauge,
    /// Times, in seconds, by how many took up to each bound.
    Latency,
}

/// Samples with one name, told apart by labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// As a reader asks for it, without the `_total` that text adds to counters. `gannet_` first, the unit last.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// How the samples behave.
    pub kind: Kind,
}

impl Family {
    /// A family of samples that only grow.
    pub const fn counter(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Counter;
        Family { name, help, kind }
    }

    /// A family of samples that rise and fall.
    pub const fn gauge(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Gauge;
        Family { name, help, kind }
    }

    /// A family of times.
    pub const fn latency(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Latency;
        Family { name, help, kind }
    }
}

/// A label's value: nothing that a peer or a path chooses, so that series stay few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelValue {
    /// A word of the program.
    Word(&'static str),
    /// A small number, as of a server of a volume.
    Number(u32),
}

impl LabelValue {
    /// The value as readers see it.
    pub fn as_text(self) -> Cow<'static, str> {
        match self {
            LabelValue::Word(word) => Cow::Borrowed(word),
            LabelValue::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

/// A label's name and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: LabelValue,
}

impl Label {
    /// A label with a word.
    pub const fn word(name: &'static str, word: &'static str) -> Label {
        let value = LabelValue::Word(word);
        Label { name, value }
    }

    /// A label with a number.
    pub const fn number(name: &'static str, number: u32) -> Label {
        let value = LabelValue::Number(number);
        Label { name, value }
    }
}

/// The labels of a sample, in the order in which they are shown.
pub type Labels = Vec<Label>;

/// A sample's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A sample of [`Kind::Counter`] or [`Kind::Gauge`].
    Number(f64),
    /// A sample of [`Kind::Latency`].
    Latency(Box<LatencyReading>),
}

/// Everything that was counted, at one time.
#[derive(Debug, Default)]
pub struct Exposition {
    families: BTreeMap<&'static str, Samples>,
}

#[derive(Debug)]
struct Samples {
    family: Family,
    values: BTreeMap<Labels, Value>,
}

impl Exposition {
    /// Adds a counter's total to the sample with these labels.
    pub fn counter(&mut self, family: &Family, labels: &[Label], counter: &Counter) {
        self.number(family, labels, counter.total());
    }

    /// Adds a gauge's present value to the sample with these labels.
    pub fn gauge(&mut self, family: &Family, labels: &[Label], gauge: &Gauge) {
        self.number(family, labels, gauge.now());
    }

    /// Adds a number to the sample with these labels.
    pub fn number(&mut self, family: &Family, labels: &[Label], number: u64) {
        // Beyond 2^53 the last digits are lost, which no reader notices.
        #[allow(clippy::cast_precision_loss)]
        self.real(family, labels, number as f64);
    }

    /// Adds a number that need not be whole, as seconds, to the sample with these labels.
    pub fn real(&mut self, family: &Family, labels: &[Label], number: f64) {
        debug_assert_ne!(family.kind, Kind::Latency, "{}", family.name);
        let value = self.value(family, labels, Value::Number(0.0));
        if let Value::Number(sum) = value {
            *sum += number;
        }
    }

    /// Adds a latency to the sample with these labels; nothing where nothing was counted, which spares series.
    pub fn latency(&mut self, family: &Family, labels: &[Label], latency: &Latency) {
        if latency.read().count() > 0 {
            self.whole_latency(family, labels, latency);
        }
    }

    /// As [`Exposition::latency`], also where nothing was counted.
    pub fn whole_latency(&mut self, family: &Family, labels: &[Label], latency: &Latency) {
        debug_assert_eq!(family.kind, Kind::Latency, "{}", family.name);
        let reading = latency.read();
        let none = Value::Latency(Box::default());
        if let Value::Latency(sum) = self.value(family, labels, none) {
            sum.add(&reading);
        }
    }

    fn value(&mut self, family: &Family, labels: &[Label], first: Value) -> &mut Value {
        let samples = self.families.entry(family.name);
        let samples = samples.or_insert_with(|| Samples {
            family: *family,
            values: BTreeMap::new(),
        });
        debug_assert_eq!(samples.family, *family, "one name, two families");
        samples.values.entry(labels.to_vec()).or_insert(first)
    }

    /// The families in the order of their names, each with its samples in the order of their labels.
    pub fn families(&self) -> impl Iterator<Item = (&Family, &BTreeMap<Labels, Value>)> {
        let families = self.families.values();
        families.map(|samples| (&samples.family, &samples.values))
    }
}

/// Something that counts.
pub trait Source: Send + Sync {
    /// Adds what it has counted.
    fn collect(&self, into: &mut Exposition);

    /// Adds its clients, if it has any.
    fn list_clients(&self, into: &mut ClientList) {
        let _ = into;
    }

    /// The exports and files with the most work, if it serves any.
    fn busy(&self) -> Option<&Busy> {
        None
    }
}

/// The sources of a process. What ends stays registered: its counters are part of the sums, which never fall.
#[derive(Default)]
pub struct Registry {
    sources: Mutex<Vec<Arc<dyn Source>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Registry")
            .field("sources", &sources.len())
            .finish()
    }
}

impl Registry {
    /// Has a source read from now on.
    pub fn add(&self, source: Arc<dyn Source>) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.push(source);
    }

    /// The clients of all sources.
    pub fn clients(&self) -> ClientList {
        let mut list = ClientList::default();
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources
            .iter()
            .for_each(|source| source.list_clients(&mut list));
        list
    }

    /// The exports and files of all sources with the most work.
    pub fn busy(&self) -> BusyList {
        let mut list = BusyList::default();
        self.each_busy(|busy| busy.read(&mut list));
        list
    }

    /// Begins a new window of time for [`Registry::busy`].
    pub fn turn_busy(&self) {
        self.each_busy(Busy::turn);
    }

    fn each_busy(&self, each: impl FnMut(&Busy)) {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources
            .iter()
            .filter_map(|source| source.busy())
            .for_each(each);
    }

    /// Everything that the sources have counted.
    pub fn read(&self) -> Exposition {
        let sources = self
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut exposition = Exposition::default();
        sources
            .iter()
            .for_each(|source| source.collect(&mut exposition));
        exposition
    }
}
