//! Which lane answers, and what becomes of one that fails.

use crate::Chat;

#[test]
fn a_short_question_runs_on_the_npu_and_a_long_paste_on_the_cpu() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("What is the capital of France?");
    chat.wait_for("would run on npu emulated");
    chat.send("\r");
    chat.wait_for("巴黎.");
    chat.wait_for("○ npu emulated");
    let screen = chat.screen();
    for expected in
        ["✓ npu", "/512  ", "first that fits · policy auto", "✗ cpu", "npu comes first", "9458 of 9458 nodes"]
    {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    // F4: the answer's last token, its time and its lane; F4 again: back.
    chat.send("\x1bOS");
    chat.wait_for("Left/Right token");
    chat.wait_for(" ms  npu");
    chat.send("\x1bOS");
    chat.wait_for("Enter send");
    let long = format!("Summarize: {}", "all work and no play makes a dull day. ".repeat(50));
    chat.send(&format!("\x1b[200~{long}\x1b[201~"));
    chat.wait_for("would run on cpu");
    chat.send("\r");
    chat.wait_for("● cpu");
    chat.wait_for("巴黎.");
    chat.wait_for("○ cpu  ");
    let screen = chat.screen();
    for expected in ["✓ cpu", "✗ npu", "/512  too long"] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_lane_that_fails_mid_answer_is_told_where_it_happened() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("please break\r");
    chat.wait_for("npu to cpu after 5 tokens: npu failed: QNN error 1100");
    chat.wait_for("○ cpu  ");
    let screen = chat.screen();
    for expected in ["✗ npu  failed: QNN error 1100, device lost", "from token 6", "巴黎."] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    // The next one does not try it again, unless it is asked to.
    chat.send("short");
    chat.wait_for("would run on cpu");
    chat.send("\x15/npu short");
    chat.wait_for("would run on npu");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_lane_can_be_asked_for_in_the_chat() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    chat.send("/cpu\r");
    chat.wait_for("cpu answers from now on");
    chat.send("What is the capital of France?\r");
    chat.wait_for("you asked for it");
    chat.wait_for("Message to cpu; /auto lets ortalk choose");
    chat.send("/auto\r");
    chat.wait_for("ortalk chooses where to answer");
    chat.send("x");
    chat.wait_for("would run on npu");
    chat.send("\x7f\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn an_engine_that_fails_says_why() {
    let mut chat = Chat::start("fail", 80, 24);
    chat.wait_for("no engine");
    chat.wait_for("libonnxruntime.so");
    chat.send("hello\r");
    chat.wait_for("there is no engine to answer");
    chat.send("\x04");
    chat.send("\x03");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
}
