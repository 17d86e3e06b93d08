//! What a command's keys mean. Pure: keys in, a verb out.

use super::super::motion::Motion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Delete,
    Change,
    Yank,
    Case(Case),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Other,
    Lower,
    Upper,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    To(Motion),
    /// Where `f`, `F`, `t` or `T` led last, or likewise in the other direction.
    Found {
        reverse: bool,
    },
    /// To the bracket that belongs to the next one in the line.
    Bracket,
    Lines,
    /// `iw`, or `aw` with the spaces behind it.
    Word {
        spaces: bool,
    },
    /// What is selected, or the lines that it touches.
    Selection,
    SelectedLines,
    /// So many characters as the count says, whatever lines they are on.
    Characters,
}

/// Where `i`, `I`, `a`, `A`, `o` and `O` begin to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    Behind,
    FirstOfLine,
    LineEnd,
    NewLine { above: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Move(Target),
    Operate(Operator, Target),
    Insert(Place),
    Put {
        before: bool,
    },
    Replace(char, Target),
    Join,
    Undo,
    /// The last change again.
    Repeat,
    /// Begins to select, by characters or by lines.
    Select {
        lines: bool,
    },
    /// The other end of the selection.
    OtherEnd,
}

impl Verb {
    /// Whether `.` does it again.
    pub fn changes(self) -> bool {
        match self {
            Self::Operate(operator, _) => operator != Operator::Yank,
            Self::Insert(_) | Self::Put { .. } | Self::Replace(..) | Self::Join => true,
            Self::Move(_) | Self::Undo | Self::Repeat | Self::Select { .. } | Self::OtherEnd => false,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The command goes on.
    More,
    /// No command.
    Unknown,
    Command {
        count: Option<usize>,
        verb: Verb,
    },
}

/// Higher counts are typing mistakes.
pub const MOST: usize = 999;

type Keys<'k> = std::iter::Peekable<std::str::Chars<'k>>;

/// The keys of a command in the normal mode, or while something is selected.
pub fn parse(keys: &str, selects: bool) -> Parsed {
    let mut keys = keys.chars().peekable();
    let first = count(&mut keys);
    let Some(key) = keys.next() else { return Parsed::More };
    let mut second = None;
    let verb = if selects { on_selection(key, &mut keys) } else { on_text(key, &mut keys, &mut second) };
    match verb {
        Ok(verb) => {
            let count = match (first, second) {
                (Some(first), Some(second)) => Some((first * second).min(MOST)),
                (first, second) => first.or(second),
            };
            Parsed::Command { count, verb }
        }
        Err(parsed) => parsed,
    }
}

fn on_text(key: char, keys: &mut Keys<'_>, second: &mut Option<usize>) -> Result<Verb, Parsed> {
    let operate = |operator, motion| Ok(Verb::Operate(operator, Target::To(motion)));
    let case = |key: &char| matches!(key, '~' | 'u' | 'U');
    match key {
        'd' => operand(Operator::Delete, key, keys, second),
        'c' => operand(Operator::Change, key, keys, second),
        'y' => operand(Operator::Yank, key, keys, second),
        'g' if keys.peek().is_some_and(case) => {
            let key = keys.next().unwrap_or_default();
            operand(Operator::Case(case_of(key)), key, keys, second)
        }
        '~' => operate(Operator::Case(Case::Other), Motion::Right),
        'x' => operate(Operator::Delete, Motion::Right),
        'X' => operate(Operator::Delete, Motion::Left),
        'D' => operate(Operator::Delete, Motion::LineEnd),
        'C' => operate(Operator::Change, Motion::LineEnd),
        's' => operate(Operator::Change, Motion::Right),
        'S' => Ok(Verb::Operate(Operator::Change, Target::Lines)),
        'Y' => Ok(Verb::Operate(Operator::Yank, Target::Lines)),
        'i' => Ok(Verb::Insert(Place::Here)),
        'a' => Ok(Verb::Insert(Place::Behind)),
        'I' => Ok(Verb::Insert(Place::FirstOfLine)),
        'A' => Ok(Verb::Insert(Place::LineEnd)),
        'o' => Ok(Verb::Insert(Place::NewLine { above: false })),
        'O' => Ok(Verb::Insert(Place::NewLine { above: true })),
        'p' => Ok(Verb::Put { before: false }),
        'P' => Ok(Verb::Put { before: true }),
        'J' => Ok(Verb::Join),
        'u' => Ok(Verb::Undo),
        '.' => Ok(Verb::Repeat),
        'v' => Ok(Verb::Select { lines: false }),
        'V' => Ok(Verb::Select { lines: true }),
        'r' => keys.next().map(|what| Verb::Replace(what, Target::To(Motion::Right))).ok_or(Parsed::More),
        key => motion(key, keys).map(Verb::Move),
    }
}

fn on_selection(key: char, keys: &mut Keys<'_>) -> Result<Verb, Parsed> {
    let selected = |operator| Ok(Verb::Operate(operator, Target::Selection));
    let lines = |operator| Ok(Verb::Operate(operator, Target::SelectedLines));
    match key {
        'd' | 'x' => selected(Operator::Delete),
        'c' | 's' => selected(Operator::Change),
        'y' => selected(Operator::Yank),
        '~' | 'u' | 'U' => selected(Operator::Case(case_of(key))),
        'D' | 'X' => lines(Operator::Delete),
        'C' | 'S' | 'R' => lines(Operator::Change),
        'Y' => lines(Operator::Yank),
        'p' | 'P' => Ok(Verb::Put { before: key == 'P' }),
        'J' => Ok(Verb::Join),
        'o' | 'O' => Ok(Verb::OtherEnd),
        'v' => Ok(Verb::Select { lines: false }),
        'V' => Ok(Verb::Select { lines: true }),
        'r' => keys.next().map(|what| Verb::Replace(what, Target::Selection)).ok_or(Parsed::More),
        'i' | 'a' => word(key, keys).map(Verb::Move),
        key => motion(key, keys).map(Verb::Move),
    }
}

/// What an operator is for; its key twice means whole lines.
fn operand(operator: Operator, key: char, keys: &mut Keys<'_>, second: &mut Option<usize>) -> Result<Verb, Parsed> {
    *second = count(keys);
    let target = match keys.next() {
        Some(again) if again == key => Target::Lines,
        Some(object @ ('i' | 'a')) => word(object, keys)?,
        Some(key) => motion(key, keys)?,
        None => return Err(Parsed::More),
    };
    Ok(Verb::Operate(operator, target))
}

fn word(object: char, keys: &mut Keys<'_>) -> Result<Target, Parsed> {
    match keys.next() {
        Some('w') => Ok(Target::Word { spaces: object == 'a' }),
        Some(_) => Err(Parsed::Unknown),
        None => Err(Parsed::More),
    }
}

fn case_of(key: char) -> Case {
    match key {
        'u' => Case::Lower,
        'U' => Case::Upper,
        _ => Case::Other,
    }
}

fn count(keys: &mut Keys<'_>) -> Option<usize> {
    let mut count = None;
    while let Some(digit) = keys.peek().and_then(|key| key.to_digit(10)) {
        // A zero in front is the line's beginning.
        if digit == 0 && count.is_none() {
            break;
        }
        count = Some((count.unwrap_or(0) * 10 + digit as usize).min(MOST));
        keys.next();
    }
    count
}

fn motion(key: char, keys: &mut Keys<'_>) -> Result<Target, Parsed> {
    let mut find = |forward, before| keys.next().map(|what| Motion::Find { what, forward, before }).ok_or(Parsed::More);
    Ok(Target::To(match key {
        'h' => Motion::Left,
        'l' | ' ' => Motion::Right,
        'j' => Motion::LineDown,
        'k' => Motion::LineUp,
        'w' => Motion::NextWord,
        'b' => Motion::PreviousWord,
        'e' => Motion::WordEnd,
        '0' => Motion::LineStart,
        '^' => Motion::FirstOfLine,
        '$' => Motion::LineEnd,
        'G' => Motion::End,
        'g' => match keys.next() {
            Some('g') => Motion::Start,
            Some(_) => return Err(Parsed::Unknown),
            None => return Err(Parsed::More),
        },
        'f' => find(true, false)?,
        't' => find(true, true)?,
        'F' => find(false, false)?,
        'T' => find(false, true)?,
        ';' => return Ok(Target::Found { reverse: false }),
        ',' => return Ok(Target::Found { reverse: true }),
        '%' => return Ok(Target::Bracket),
        _ => return Err(Parsed::Unknown),
    }))
}
