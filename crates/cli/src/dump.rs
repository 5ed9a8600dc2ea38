//! `gannet dump`: a capture from a file or a pipe, on standard output.

use crate::cli::DumpOptions;
use crate::failure::{Explain, Failure};
use gannet_dump::{CaptureError, DumpError, Style};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Does what the command line says.
///
/// # Errors
/// The file cannot be read to its end, or the output not be written.
pub fn run(options: &DumpOptions) -> Result<(), Failure> {
    let is_stdin = options.file == Path::new("-");
    let name = if is_stdin {
        String::from("standard input")
    } else {
        options.file.display().to_string()
    };
    let input: Box<dyn Read> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&options.file).explain(|| format!("cannot read {name}"))?)
    };
    let style = Style {
        verbose: options.verbose,
        json: options.json,
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    gannet_dump::decode(input, style, &mut output).map_err(|error| match error {
        DumpError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::silent(),
        DumpError::Output(error) => Failure::new("cannot write the output", error),
        DumpError::Capture(error) => {
            let hint = match &error {
                CaptureError::Format => "make captures with `tcpdump -w FILE`",
                CaptureError::Input(_) => "check that it is a file",
                _ => "everything before it was printed",
            };
            Failure::new(format!("cannot read {name}"), error).hint(hint)
        }
    })
}
