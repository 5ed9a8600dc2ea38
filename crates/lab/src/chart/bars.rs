//! Stacked bars: sums and what they consist of. They lie, so that their labels can be read.

use super::paper::{
    Area, Drawn, Point, Scale, Side, axis_line, colour, grid_line, legend, text, title,
};
use plotters::prelude::*;

const LEFT: i32 = 330;
/// Where the plot ends and the legend starts.
const RIGHT: i32 = 780;
const TOP: i32 = 46;
/// Pixels from one bar to the next.
const STEP: i32 = 24;
/// Below the last bar: numbers and name of the axis.
const BELOW: i32 = 64;
/// The legend needs so much, however few bars there are.
const BARS_MIN: i32 = 8;
/// Bars of one panel, at most; the title says how many are left out.
const BARS_MAX: usize = 40;

/// A panel with stacked bars.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// The title.
    pub(crate) title: String,
    /// Name and unit of the values; starts at 0.
    pub(crate) x: String,
    /// Names of the parts, in the legend.
    pub(crate) parts: Vec<String>,
    /// The bars from top to bottom; the first forty are drawn.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// The label before the bar.
    pub(crate) label: String,
    /// A value for each part.
    pub(crate) parts: Vec<f64>,
}

impl Bars {
    fn shown(&self) -> &[Bar] {
        self.bars.get(..BARS_MAX).unwrap_or(&self.bars)
    }

    /// Where the axis is.
    fn bottom(&self) -> i32 {
        let count = i32::try_from(self.shown().len()).unwrap_or(i32::MAX / STEP);
        TOP + STEP * count.max(BARS_MIN)
    }

    pub(super) fn height(&self) -> u32 {
        (self.bottom() + BELOW).unsigned_abs()
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let sums = self.shown().iter().map(|bar| bar.parts.iter().sum());
        let scale = Scale::new(sums.fold(0.0, f64::max), LEFT, RIGHT);
        let bottom = self.bottom();
        let left_out = self.bars.len() - self.shown().len();
        let caption = match left_out {
            0 => self.title.clone(),
            _ => format!("{} ({left_out} more are not shown)", self.title),
        };
        title(area, &caption, 14)?;
        for (x, number) in scale.marks() {
            grid_line(area, Point::new(x, TOP), Point::new(x, bottom))?;
            text(area, &number, Point::new(x, bottom + 8), Side::Below)?;
        }
        axis_line(area, Point::new(LEFT, bottom), Point::new(RIGHT, bottom))?;
        axis_line(area, Point::new(LEFT, TOP), Point::new(LEFT, bottom))?;
        text(
            area,
            &self.x,
            Point::new(i32::midpoint(LEFT, RIGHT), bottom + 32),
            Side::Below,
        )?;
        let mut middle = TOP + STEP / 2;
        for bar in self.shown() {
            text(area, &bar.label, Point::new(LEFT - 8, middle), Side::Left)?;
            let mut sum = 0.0;
            for (number, part) in bar.parts.iter().enumerate() {
                let from = scale.pixel(sum);
                sum += part;
                let corners = [(from, middle - 8), (scale.pixel(sum), middle + 8)];
                area.draw(&Rectangle::new(corners, colour(number).filled()))?;
            }
            middle += STEP;
        }
        let names = self.parts.iter().map(String::as_str);
        legend(area, names, Point::new(RIGHT + 24, TOP + 6))
    }
}
