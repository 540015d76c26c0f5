//! Log lines on standard error, as JSON for machines or as text for people.
//!
//! Log lines name objects, fields, policies and people. They never hold values of fields.

use tracing_subscriber::EnvFilter;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    #[default]
    Json,
    /// Text for a terminal.
    Text,
}

/// The filter could not be read, or logging was set up before.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Not a filter such as `info` or `fieldkeeper=debug,info`.
    #[error("log filter {filter:?}: {source}")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Somebody else has set it up.
    #[error("logging is already set up: {0}")]
    Twice(Box<dyn std::error::Error + Send + Sync>),
}

/// Sets up logging for the process, panics included.
pub fn init(format: Format, filter: &str) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
        Format::Text => builder.try_init(),
    }
    .map_err(LogError::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        // The payload may quote what was being worked on, so only the place is told.
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        tracing::error!(place, "a panic, which is a fault of this program");
    }));
    Ok(())
}
