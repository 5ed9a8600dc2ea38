//! Lines over something that grows: threads, records, clients.

use super::paper::{
    Area, Drawn, Point, Scale, Side, axis_line, colour, grid_line, legend, text, title,
};
use plotters::prelude::*;

pub(super) const HEIGHT: u32 = 380;
const LEFT: i32 = 80;
/// Where the plot ends and the legend starts.
const RIGHT: i32 = 660;
const TOP: i32 = 46;
const BOTTOM: i32 = 318;

/// A panel with lines.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    /// The title.
    pub(crate) title: String,
    /// Name and unit of the variable. Its values stand at equal distances, as the field draws 1, 2, 4 and 8 threads.
    pub(crate) x: String,
    /// Name and unit of what is measured; starts at 0.
    pub(crate) y: String,
    /// One line each.
    pub(crate) series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// The values of the variable, and the measurement at each.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Lines {
    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let mut columns: Vec<f64> = points().map(|(x, _)| *x).collect();
        columns.sort_by(f64::total_cmp);
        columns.dedup();
        let max = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let scale = Scale::new(max, BOTTOM, TOP);
        title(area, &self.title, LEFT)?;
        for (y, number) in scale.marks() {
            grid_line(area, Point::new(LEFT, y), Point::new(RIGHT, y))?;
            text(area, &number, Point::new(LEFT - 8, y), Side::Left)?;
        }
        for (number, value) in columns.iter().enumerate() {
            let x = column_pixel(number, columns.len());
            axis_line(area, Point::new(x, BOTTOM), Point::new(x, BOTTOM + 4))?;
            text(area, &short(*value), Point::new(x, BOTTOM + 8), Side::Below)?;
        }
        axis_line(area, Point::new(LEFT, BOTTOM), Point::new(RIGHT, BOTTOM))?;
        axis_line(area, Point::new(LEFT, TOP), Point::new(LEFT, BOTTOM))?;
        text(
            area,
            &self.x,
            Point::new(i32::midpoint(LEFT, RIGHT), BOTTOM + 32),
            Side::Below,
        )?;
        text(
            area,
            &self.y,
            Point::new(14, i32::midpoint(TOP, BOTTOM)),
            Side::Upright,
        )?;
        for (number, series) in self.series.iter().enumerate() {
            let place = |(x, y): &(f64, f64)| {
                let column = columns.partition_point(|column| column < x);
                (column_pixel(column, columns.len()), scale.pixel(*y))
            };
            let places: Vec<(i32, i32)> = series.points.iter().map(place).collect();
            for place in &places {
                area.draw(&Circle::new(*place, 4, colour(number).filled()))?;
            }
            area.draw(&PathElement::new(places, colour(number).stroke_width(2)))?;
        }
        let names = self.series.iter().map(|series| series.name.as_str());
        legend(area, names, Point::new(RIGHT + 24, TOP + 6))
    }
}

fn column_pixel(number: usize, count: usize) -> i32 {
    let share = (number as f64 + 0.5) / count.max(1) as f64;
    LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
}

/// A number without decimals that it does not need; powers of 1024 from 1024 on.
fn short(value: f64) -> String {
    let whole = value.round() as u64;
    if (value - value.round()).abs() > f64::EPSILON {
        return format!("{value:.2}");
    }
    match whole {
        0..1024 => whole.to_string(),
        whole if whole % (1 << 20) == 0 => format!("{} Mi", whole >> 20),
        whole if whole % 1024 == 0 => format!("{} Ki", whole >> 10),
        whole => whole.to_string(),
    }
}
