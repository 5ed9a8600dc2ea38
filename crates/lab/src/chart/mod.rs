//! Charts as SVG: lines over threads or record sizes, and stacked bars of where time went.
//!
//! The same rows give the same bytes, on every machine: text is placed by estimate, without looking at fonts, and no
//! time or random number is drawn. So a chart in the documentation can be compared with one drawn anew.

mod bars;
mod lines;
mod paper;

pub(crate) use bars::{Bar, Bars};
pub(crate) use lines::{Lines, Series};

use gannet_cli::failure::Failure;
use paper::{Area, Drawn};
use plotters::prelude::*;

/// Width of every chart, in pixels.
const WIDTH: u32 = 960;
/// Panels of one chart, at most: more do not fit on a screen, however long.
pub(crate) const PANELS_MAX: usize = 48;

/// One part of a chart; parts stand below each other.
#[derive(Debug, Clone)]
pub(crate) enum Panel {
    /// Rates or times over something that grows.
    Lines(Lines),
    /// Sums and what they consist of.
    Bars(Bars),
}

impl Panel {
    fn height(&self) -> u32 {
        match self {
            Panel::Lines(_) => lines::HEIGHT,
            Panel::Bars(bars) => bars.height(),
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        match self {
            Panel::Lines(lines) => lines.draw(area),
            Panel::Bars(bars) => bars.draw(area),
        }
    }
}

/// The panels as one SVG document.
///
/// # Errors
/// There is nothing to draw, or more than [`PANELS_MAX`] panels.
pub(crate) fn svg(panels: &[Panel]) -> Result<String, Failure> {
    let what = "cannot draw the chart";
    if panels.is_empty() {
        return Err(Failure::new(what, "there is nothing in it"));
    }
    if panels.len() > PANELS_MAX {
        let why = format!("{} panels do not fit: at most {PANELS_MAX}", panels.len());
        return Err(Failure::new(what, why).hint("ask for fewer operations or record sizes"));
    }
    let mut document = String::new();
    draw(panels, &mut document).map_err(|error| Failure::new(what, error))?;
    Ok(document)
}

fn draw(panels: &[Panel], document: &mut String) -> Drawn {
    let height = panels.iter().map(Panel::height).sum();
    let root = SVGBackend::with_string(document, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for panel in panels {
        let (area, below) = rest.split_vertically(panel.height());
        panel.draw(&area)?;
        rest = below;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels() -> Vec<Panel> {
        let series = |name: &str, scale: f64| Series {
            name: name.to_owned(),
            points: vec![(1.0, scale), (2.0, 1.8 * scale), (8.0, 2.5 * scale)],
        };
        let lines = Lines {
            title: String::from("READ & <records>"),
            x: String::from("threads"),
            y: String::from("MB/s"),
            series: vec![series("dynamic", 150.0), series("server-cache", 290.0)],
        };
        let bar = |label: &str, scale: f64| Bar {
            label: label.to_owned(),
            parts: vec![3.0 * scale, 0.0, 5.0 * scale],
        };
        let bars = Bars {
            title: String::from("Time of an operation"),
            x: String::from("us per operation"),
            parts: ["registration", "copy", "wire"].map(String::from).to_vec(),
            bars: vec![bar("read", 10.0), bar("write", 17.0)],
        };
        vec![Panel::Lines(lines), Panel::Bars(bars)]
    }

    #[test]
    fn a_chart_names_its_axes_and_series_and_is_drawn_the_same_again() {
        let first = svg(&panels()).unwrap();
        assert_eq!(first, svg(&panels()).unwrap());
        for text in [
            "READ &amp; &lt;records&gt;",
            "threads",
            "MB/s",
            "server-cache",
            "us per operation",
            "registration",
            "wire",
        ] {
            assert!(first.contains(text), "{text} is not in the chart");
        }
        assert!(first.starts_with("<svg ") && first.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        assert!(svg(&[]).is_err());
        let many = vec![panels().remove(0); PANELS_MAX + 1];
        assert!(svg(&many).unwrap_err().to_string().contains("fewer"));
    }

    #[test]
    fn series_without_points_or_with_zeros_can_be_drawn() {
        let lines = Lines {
            title: String::new(),
            x: String::new(),
            y: String::new(),
            series: vec![
                Series {
                    name: String::from("empty"),
                    points: Vec::new(),
                },
                Series {
                    name: String::from("zero"),
                    points: vec![(1.0, 0.0)],
                },
            ],
        };
        assert!(svg(&[Panel::Lines(lines)]).is_ok());
    }
}
