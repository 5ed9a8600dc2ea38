//! Common parts of all panels: places, colours, text, axes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, FontTransform};
use std::error::Error;

/// Part of a chart under way.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawn, or why not.
pub(super) type Drawn = Result<(), Box<dyn Error>>;

/// The colours of Okabe and Ito, which are distinct to the colour-blind; grey takes the place of their black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(148, 148, 148),
    RGBColor(240, 228, 66),
];
const GRID: RGBColor = RGBColor(221, 221, 221);
/// Height of ordinary text, in pixels.
const TEXT: u32 = 15;
const TITLE: u32 = 19;
/// Pixels between two lines of a legend.
const LEGEND_STEP: i32 = 20;
/// The most lines of an axis of numbers.
const MARKS_MAX: f64 = 6.0;

/// The colour of the `number`th series or part; they come again after eight.
pub(super) fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// A point of a panel, in pixels from its upper left corner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) x: i32,
    pub(super) y: i32,
}

impl Point {
    pub(super) fn new(x: i32, y: i32) -> Point {
        Point { x, y }
    }
}

/// The form of points that the drawing library takes.
impl From<Point> for (i32, i32) {
    fn from(point: Point) -> (i32, i32) {
        (point.x, point.y)
    }
}

/// The side of a point on which text stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    /// The text starts at the point.
    Right,
    /// The text ends at the point.
    Left,
    /// The text hangs below the point, centred.
    Below,
    /// The text runs upwards beside the point, centred.
    Upright,
}

/// Writes text of ordinary size.
pub(super) fn text(area: &Area<'_>, text: &str, at: Point, side: Side) -> Drawn {
    let (h, v) = match side {
        Side::Right => (HPos::Left, VPos::Center),
        Side::Left => (HPos::Right, VPos::Center),
        Side::Below | Side::Upright => (HPos::Center, VPos::Top),
    };
    let font = FontDesc::new(FontFamily::SansSerif, f64::from(TEXT), FontStyle::Normal);
    let font = match side {
        Side::Upright => font.transform(FontTransform::Rotate270),
        _ => font,
    };
    let style = TextStyle::from(font).pos(Pos::new(h, v)).color(&BLACK);
    area.draw_text(text, &style, at.into())?;
    Ok(())
}

/// Writes the title of a panel over the plot that starts at `left`.
pub(super) fn title(area: &Area<'_>, text: &str, left: i32) -> Drawn {
    let font = FontDesc::new(FontFamily::SansSerif, f64::from(TITLE), FontStyle::Bold);
    let style = TextStyle::from(font)
        .pos(Pos::new(HPos::Left, VPos::Top))
        .color(&BLACK);
    area.draw_text(text, &style, (left, 10))?;
    Ok(())
}

/// Names with squares of their colours, from `at` down.
pub(super) fn legend<'n>(
    area: &Area<'_>,
    names: impl Iterator<Item = &'n str>,
    at: Point,
) -> Drawn {
    for (number, name) in names.enumerate() {
        let y = at.y + LEGEND_STEP * i32::try_from(number).unwrap_or(i32::MAX / LEGEND_STEP);
        let square = [(at.x, y - 6), (at.x + 12, y + 6)];
        area.draw(&Rectangle::new(square, colour(number).filled()))?;
        text(area, name, Point::new(at.x + 18, y), Side::Right)?;
    }
    Ok(())
}

/// An axis of numbers from 0 on.
pub(super) struct Scale {
    step: f64,
    end: f64,
    start: i32,
    len: i32,
}

impl Scale {
    /// Shows everything up to `max` between the pixels `start` and `end`, of which either may be the larger one.
    pub(super) fn new(max: f64, start: i32, end: i32) -> Scale {
        let max = if max.is_finite() && max > 0.0 {
            max
        } else {
            1.0
        };
        let magnitude = 10f64.powf((max / MARKS_MAX).log10().floor());
        let fitting = [1.0, 2.0, 5.0].map(|digit| digit * magnitude);
        let fits = |step: &f64| max / step <= MARKS_MAX;
        let step = fitting.into_iter().find(fits).unwrap_or(10.0 * magnitude);
        let len = end - start;
        let end = (max / step).ceil() * step;
        Scale {
            step,
            end,
            start,
            len,
        }
    }

    /// The pixel of a value.
    pub(super) fn pixel(&self, value: f64) -> i32 {
        self.start + (value / self.end * f64::from(self.len)).round() as i32
    }

    /// The values that get a line and a number.
    pub(super) fn marks(&self) -> impl Iterator<Item = (i32, String)> + '_ {
        let count = (self.end / self.step).round() as u32;
        let decimals = usize::from(self.step < 1.0) + usize::from(self.step < 0.1);
        (0..=count).map(move |number| {
            let value = f64::from(number) * self.step;
            (self.pixel(value), format!("{value:.decimals$}"))
        })
    }
}

/// A thin line of the grid.
pub(super) fn grid_line(area: &Area<'_>, from: Point, to: Point) -> Drawn {
    area.draw(&PathElement::new(
        [from.into(), to.into()],
        GRID.stroke_width(1),
    ))?;
    Ok(())
}

/// A line of an axis.
pub(super) fn axis_line(area: &Area<'_>, from: Point, to: Point) -> Drawn {
    area.draw(&PathElement::new(
        [from.into(), to.into()],
        BLACK.stroke_width(1),
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_round_steps_and_room_for_the_largest_value() {
        for (max, last, count) in [(375.0, "400", 5), (0.07, "0.08", 5), (1000.0, "1000", 6)] {
            let scale = Scale::new(max, 0, 100);
            let marks: Vec<_> = scale.marks().collect();
            assert_eq!(marks.len(), count, "{max}: {marks:?}");
            assert_eq!(marks.last().unwrap(), &(100, String::from(last)));
            assert!(scale.pixel(max) <= 100);
        }
        assert_eq!(Scale::new(f64::NAN, 0, 100).pixel(0.5), 50);
    }
}
