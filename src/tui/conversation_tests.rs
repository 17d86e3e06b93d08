use proptest::prelude::*;

use super::*;

fn rows(conversation: &Conversation) -> Vec<String> {
    conversation
        .visible()
        .into_iter()
        .map(|(number, row)| {
            let block = &conversation.blocks()[number];
            match row {
                Row::Header => "#".to_string(),
                Row::Thinking => "?".to_string(),
                Row::Thought(line) => format!("?{}", &block.thought()[line.start..line.end]),
                Row::Text(row) => row.text(block.shown()),
                Row::Mark(number, line) => format!("~{}", &block.mark(number)[line.start..line.end]),
                Row::Ending(_) => "!".to_string(),
                Row::Gap => String::new(),
            }
        })
        .collect()
}

fn conversation(columns: usize, height: usize) -> Conversation {
    let mut c = Conversation::default();
    c.add(Kind::User, "one two three four");
    c.add(Kind::Answer(AnswerHeader::default()), "five six seven eight nine ten");
    c.lay_out(columns, height);
    c
}

#[test]
fn the_newest_rows_are_in_view() {
    let c = conversation(10, 4);
    assert_eq!(
        rows(&c),
        ["#", "five six", "seven", "eight nine"].map(String::from)[1..]
            .iter()
            .cloned()
            .chain(["ten".into()])
            .collect::<Vec<_>>()
    );
    assert!(c.is_following());
}

#[test]
fn thinking_is_folded_until_it_is_asked_for() {
    let mut c = Conversation::default();
    c.add(Kind::User, "one");
    c.add(Kind::Answer(AnswerHeader { thinking_tokens: 3, ..AnswerHeader::default() }), "");
    c.think(1, "two three");
    c.lay_out(6, 20);
    assert_eq!(rows(&c), ["#", "one", "", "#", "?", "", ""]);
    c.append(1, "four");
    c.think(1, " five");
    c.lay_out(6, 20);
    assert_eq!(rows(&c), ["#", "one", "", "#", "?", "four", ""]);
    c.toggle_thinking();
    c.lay_out(6, 20);
    assert_eq!(rows(&c), ["#", "one", "", "#", "?", "?two", "?three", "?five", "", "four", ""]);
    // Every row is found again by its place.
    for row in 0..c.total_rows() {
        assert_eq!(c.row_of(c.anchor(row)), row);
    }
    assert_eq!(c.messages().last().unwrap().content, "four");
    c.toggle_thinking();
    c.lay_out(6, 20);
    assert_eq!(rows(&c).len(), 7);
}

#[test]
fn a_question_that_was_only_thought_about_is_left_out() {
    let mut c = Conversation::default();
    c.add(Kind::User, "one");
    c.add(Kind::Answer(AnswerHeader { thinking_tokens: 3, ..AnswerHeader::default() }), "");
    c.think(1, "hm");
    assert_eq!(c.messages(), []);
}

#[test]
fn new_text_never_moves_a_reader_who_scrolled_up() {
    let mut c = conversation(10, 4);
    c.scroll_by(-3);
    let before = rows(&c);
    for _ in 0..50 {
        c.append(1, " more words");
        c.lay_out(10, 4);
        assert_eq!(rows(&c), before);
    }
    let (below, new) = c.rows_below();
    assert!(new > 40 && below > new, "{below} {new}");
    c.follow();
    assert_eq!(c.rows_below(), (0, 0));
}

#[test]
fn rows_seen_while_scrolling_down_are_not_new_any_more() {
    let mut c = conversation(10, 4);
    c.scroll_by(-3);
    for _ in 0..20 {
        c.append(1, "\nrow");
    }
    c.lay_out(10, 4);
    assert_eq!(c.rows_below().1, 20);
    c.scroll_by(8);
    assert_eq!(c.rows_below(), (15, 15));
    c.scroll_by(-8);
    assert_eq!(c.rows_below(), (23, 15));
    c.scroll_by(100);
    assert!(c.is_following());
}

#[test]
fn a_new_width_keeps_the_reader_at_the_same_words() {
    let mut c = conversation(10, 3);
    c.scroll_to(5);
    assert_eq!(rows(&c)[0], "five six");
    c.lay_out(4, 3);
    assert_eq!(rows(&c)[0], "five");
    c.lay_out(10, 3);
    assert_eq!(rows(&c)[0], "five six");
}

#[test]
fn an_unanswered_question_is_not_sent_again() {
    let mut c = Conversation::default();
    c.add(Kind::User, "lost");
    c.add(Kind::Answer(AnswerHeader::default()), "");
    c.add(Kind::Notice(Level::Info), "a notice");
    c.add(Kind::User, "kept");
    c.add(Kind::Answer(AnswerHeader::default()), "answer\x1b");
    let texts: Vec<_> = c.messages().into_iter().map(|m| m.content).collect();
    assert_eq!(texts, ["kept", "answer\x1b"]);
}

proptest! {
    /// Text that arrives in pieces is wrapped as if it had come at once.
    #[test]
    fn growing_gives_the_same_lines(pieces in prop::collection::vec("[ab日 \n]{0,6}", 0..30), columns in 2usize..20) {
        let mut grown = Conversation::default();
        grown.add(Kind::Answer(AnswerHeader::default()), "");
        grown.lay_out(columns, 1000);
        for piece in &pieces {
            grown.append(0, piece);
            grown.lay_out(columns, 1000);
        }
        let mut whole = Conversation::default();
        whole.add(Kind::Answer(AnswerHeader::default()), &pieces.concat());
        whole.lay_out(columns, 1000);
        prop_assert_eq!(rows(&grown), rows(&whole));
    }
}

#[test]
fn a_remark_stands_below_the_line_that_it_falls_into() {
    let mut c = Conversation::default();
    c.add(Kind::Answer(AnswerHeader::default()), "five six sev");
    c.add_mark(0, "a remark".into());
    c.append(0, "en eight");
    c.lay_out(10, 10);
    assert_eq!(rows(&c), ["#", "five six", "seven", "~a remark", "eight", ""]);
    c.add_mark(0, "one more here".into());
    c.lay_out(10, 10);
    assert_eq!(rows(&c), ["#", "five six", "seven", "~a remark", "eight", "~one more", "~here", ""]);
    assert_eq!(c.messages()[0].content, "five six seven eight");
    // Another width moves it with its line.
    c.lay_out(40, 10);
    assert_eq!(rows(&c), ["#", "five six seven eight", "~a remark", "~one more here", ""]);
}

#[test]
fn a_remark_before_the_first_word_stands_first() {
    let mut c = Conversation::default();
    c.add(Kind::Answer(AnswerHeader::default()), "");
    c.add_mark(0, "a remark".into());
    c.append(0, "text");
    c.lay_out(20, 10);
    assert_eq!(rows(&c), ["#", "~a remark", "text", ""]);
    c.header_mut(0).unwrap().ending = Some((Level::Warning, "ended".into()));
    c.lay_out(20, 10);
    assert_eq!(rows(&c), ["#", "~a remark", "text", "!", ""]);
}

#[test]
fn a_reader_keeps_the_place_among_remarks() {
    let mut c = Conversation::default();
    c.add(Kind::Answer(AnswerHeader::default()), "one two three four five six");
    c.add_mark(0, "first second third".into());
    c.append(0, " seven eight nine ten");
    c.lay_out(8, 2);
    for top in 0..c.total_rows() - 2 {
        c.scroll_to(top);
        assert_eq!(c.top_row(), top);
        let before = rows(&c);
        c.append(0, " more");
        c.lay_out(8, 2);
        assert_eq!(rows(&c), before, "{top}");
    }
}

/// What is followed at low pace: the text's end is always in view, and moves seldom.
#[test]
fn followed_text_moves_in_steps() {
    let mut conversation = Conversation::default();
    conversation.move_in_steps(true);
    conversation.add(Kind::Notice(Level::Info), "line");
    let (height, mut tops) = (20, Vec::new());
    for rows in 1..=60 {
        conversation.lay_out(40, height);
        let top = conversation.top_row();
        assert_eq!(conversation.total_rows(), rows);
        assert!(top + height >= rows && top < rows && top % 5 == 0, "{top} of {rows}");
        assert!(conversation.is_following() && conversation.rows_below() == (0, 0));
        assert!(conversation.visible().len() <= height);
        tops.push(top);
        conversation.append(0, "\nline");
    }
    tops.dedup();
    assert_eq!(tops, [0, 5, 10, 15, 20, 25, 30, 35, 40]);
    // One row up is one row up from the last full view, and the reader stays there.
    conversation.lay_out(40, height);
    conversation.scroll_by(-1);
    assert_eq!(conversation.top_row(), 61 - 20 - 1);
    conversation.scroll_by(1);
    assert!(conversation.is_following());
}

#[test]
fn other_rows_of_the_same_text_are_not_new() {
    let mut c = conversation(10, 3);
    c.scroll_to(0);
    c.lay_out(10, 3);
    assert_eq!(c.rows_below().1, 0);
    c.lay_out(5, 3);
    assert!(c.rows_below().0 > 0);
    assert_eq!(c.rows_below().1, 0);
    c.append(1, " eleven twelve thirteen");
    c.lay_out(7, 3);
    assert!(c.rows_below().1 > 0);
}
