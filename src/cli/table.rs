//! Text for people: tables that fit 80 columns, ages, and text from elsewhere made harmless.

use std::time::Duration;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

/// How wide a table may be, in columns of the terminal. Wide characters, such as Japanese ones, count as two.
pub const WIDTH: u16 = 80;

/// An empty table with these headings; none for an empty list.
pub fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    if !headings.is_empty() {
        table.set_header(headings.iter().map(|heading| heading.to_uppercase()).collect::<Vec<_>>());
    }
    table
}

/// The table's text, without spaces at the ends of lines.
pub fn text(mut table: Table) -> String {
    table.discover_columns();
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut lines: Vec<String> = table.trim_fmt().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.push(String::new());
    lines.join("\n")
}

/// Aligns columns of numbers to the right.
pub fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    table.discover_columns();
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Keeps a column from taking more than so many columns of the terminal.
pub fn limit(table: &mut Table, column: usize, width: u16) {
    table.discover_columns();
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(width)));
    }
}

/// A row that is at most so many lines high; what doesn't fit ends in `…`.
pub fn low_row(cells: impl IntoIterator<Item = String>, lines: usize) -> Row {
    let mut row = Row::from(cells.into_iter().collect::<Vec<_>>());
    row.max_height(lines.max(1));
    row
}

/// Names and what they stand for, one a line; what takes more lines hangs under itself.
pub fn facts(facts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = table(&[]);
    for (name, value) in facts {
        table.add_row(low_row([name.to_owned(), value], 12));
    }
    text(table)
}

/// A paragraph in as many lines as it takes. A command, which stands in backticks, is kept in one piece for copying.
pub fn wrapped(paragraph: &str) -> String {
    const KEPT: &str = "\u{a0}";
    let parts = paragraph.split('`').enumerate();
    let parts = parts.map(|(n, part)| if n % 2 == 1 { part.replace(' ', KEPT) } else { part.to_owned() });
    let mut table = table(&[]);
    table.add_row(low_row([parts.collect::<Vec<_>>().join("`")], 12));
    text(table).trim_end().replace(KEPT, " ")
}

/// Text from elsewhere made harmless for a terminal: one line, without control characters or such as turn the reading
/// direction.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_unsafe(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Whether a terminal could obey a character instead of showing it.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// A duration in its two largest units: `3h 5m`.
pub fn brief(duration: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    whole.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// `1 line`, `2 lines`.
pub fn count(n: u64, one: &str) -> String {
    match (n, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_as_two_and_tables_fit() {
        let mut wide = table(&["id", "message"]);
        wide.add_row(low_row(["a".to_owned(), "日本語の長い説明文です。".repeat(20)], 2));
        wide.add_row(low_row(["b".to_owned(), "x".repeat(500)], 2));
        insta::assert_snapshot!(text(wide), @r#"
ID  MESSAGE
a   日本語の長い説明文です。日本語の長い説明文です。日本語の長い説明文です。日
    本語の長い説明文です。日本語の長い説明文です。日本語の長い説明文です。日…
b   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
"#);
    }

    #[test]
    fn a_command_is_not_broken_over_lines() {
        let command = "`gleaner --data 'a folder of work' resume`";
        let told = wrapped(&format!("{} {command} (a reason)", "word ".repeat(10).trim_end()));
        assert_eq!(told, format!("{}\n{command} (a reason)", "word ".repeat(10).trim_end()));
    }

    #[test]
    fn controls_never_reach_the_terminal() {
        let nasty = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\r\n\tb";
        let safe = plain(nasty);
        assert_eq!(safe, "a\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}   b");
        assert!(!safe.chars().any(is_unsafe));
    }

    #[test]
    fn ages_and_counts_read_well() {
        assert_eq!(brief(Duration::from_millis(3_661_500)), "1h 1m");
        assert_eq!(brief(Duration::from_millis(900)), "0s");
        assert_eq!(
            (count(1, "line"), count(0, "line"), count(2, "try")),
            ("1 line".into(), "0 lines".into(), "2 tries".into())
        );
    }
}
