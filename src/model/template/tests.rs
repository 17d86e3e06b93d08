use super::*;
use serde_json::json;

const USER: TemplateMessage<'static> = TemplateMessage { role: "user", content: "Hi" };

fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    ChatTemplate::new(&source.into(), &json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>"}))
}

fn render(source: &str) -> Result<String, TemplateError> {
    template(source)?.render(&[USER], true)
}

#[test]
fn blocks_leave_no_line_breaks_behind() {
    let source =
        "{% for m in messages %}\n  {% if true %}\n{{ m.role }}: {{ m['content'] }}\n  {% endif %}\n{% endfor %}";
    assert_eq!(render(source).unwrap(), "user: Hi\n");
}

#[test]
fn special_tokens_come_in_both_notations() {
    assert_eq!(render("{{ bos_token }}{{ eos_token }}").unwrap(), "<s></s>");
    let none = ChatTemplate::new(&"[{{ bos_token }}]".into(), &serde_json::Value::Null).unwrap();
    assert_eq!(none.render(&[USER], true).unwrap(), "[]");
}

#[test]
fn python_methods_work() {
    assert_eq!(render("{% if messages[0].content.upper().startswith('H') %}yes{% endif %}").unwrap(), "yes");
}

#[test]
fn a_template_can_refuse() {
    let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err().to_string();
    assert!(error.contains("roles must alternate"), "{error}");
}

#[test]
fn a_template_without_end_is_stopped() {
    for source in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        // What it makes is counted, too: these would fill any memory in a few hundred steps.
        "{% set n = namespace(s='12345678') %}{% for a in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='12345678') %}{% for a in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% macro m(d) %}{{ m(d) }}{{ m(d) }}{% endmacro %}{{ m(1) }}",
        "{% set n = namespace(s='12345678') %}{% for a in range(64) %}{% set n.s = n.s | replace('1', n.s) %}{% endfor %}",
        "{% set n = namespace(s='1') %}{% for a in range(64) %}{% set n.s = n.s.replace('1', '11111111') %}{% endfor %}",
        "{{ 'x' * 4000000000 }}",
        "{% set n = namespace(s='1') %}{% for a in range(64) %}{% set n.s = {'a': n.s, 'b': n.s} | tojson %}{% endfor %}",
    ] {
        assert!(matches!(render(source), Err(TemplateError::Render(_))), "{source}");
    }
}

#[test]
fn a_very_long_conversation_is_rendered() {
    let source = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}{% endfor %}";
    let messages = vec![USER; 20_000];
    let text = template(source).unwrap().render(&messages, true).unwrap();
    assert_eq!(text.len(), 20_000 * "<user>Hi".len());
}

#[test]
fn a_template_that_cannot_be_read_says_so() {
    assert!(matches!(render("{% for %}"), Err(TemplateError::Parse(_))));
}

#[test]
fn tools_have_a_template_of_their_own_where_the_model_has_one() {
    let mut sources: TemplateSources = "plain {{ tools is none }} {{ documents is none }}".into();
    let inputs = |tools| TemplateInputs { tools, ..TemplateInputs::default() };
    let one = ChatTemplate::new(&sources, &json!({})).unwrap();
    assert_eq!(one.render_inputs(&inputs(Some(vec![json!({})]))).unwrap(), "plain False True");
    sources.named.insert("tool_use".into(), "{{ tools | tojson }}".into());
    let two = ChatTemplate::new(&sources, &json!({})).unwrap();
    assert_eq!(two.render_inputs(&inputs(Some(vec![json!({"a": 1})]))).unwrap(), "[{\"a\": 1}]");
    assert_eq!(two.render_inputs(&inputs(None)).unwrap(), "plain True True");
}

#[test]
fn thinking_is_left_to_the_template_or_told() {
    let template = template("{{ enable_thinking is defined }} {{ enable_thinking }} {{ thinking }}").unwrap();
    assert!(template.switches_thinking());
    for (thinking, expected) in [(None, "False  "), (Some(true), "True True True"), (Some(false), "True False False")] {
        let inputs = TemplateInputs { thinking, ..TemplateInputs::default() };
        assert_eq!(template.render_inputs(&inputs).unwrap(), expected);
    }
    assert!(!super::tests::template("{% set thinking = 1 %}{{ thinking }}").unwrap().switches_thinking());
}

#[test]
fn past_thinking_goes_by_all_its_names() {
    let template = template("{% for m in messages %}{{ m.reasoning_content }}/{{ m.thinking }};{% endfor %}").unwrap();
    let messages =
        vec![json!({"role": "assistant", "reasoning": "a"}), json!({"thinking": "b"}), json!({"content": "c"})];
    let inputs = TemplateInputs { messages, ..TemplateInputs::default() };
    assert_eq!(template.render_inputs(&inputs).unwrap(), "a/a;b/b;/;");
}

#[test]
fn an_answer_can_be_gone_on_with() {
    let inputs = |content: serde_json::Value| TemplateInputs {
        messages: vec![json!({"role": "assistant", "content": content})],
        continue_last: true,
        ..TemplateInputs::default()
    };
    let render = |source: &str, content: serde_json::Value| template(source).unwrap().render_inputs(&inputs(content));
    let plain = "{% for m in messages %}<a>{{ m.content }}<end>{% endfor %}";
    assert_eq!(render(plain, json!("Once ")).unwrap(), "<a>Once ");
    let trimmed = "{% for m in messages %}<a>{{ m.content | trim }}<end>{% endfor %}";
    assert_eq!(render(trimmed, json!("Once ")).unwrap(), "<a>Once");
    assert!(matches!(render("nothing", json!("Once")), Err(TemplateError::Continue(_))));
    assert!(matches!(render(plain, json!([1])), Err(TemplateError::Continue(_))));
}

#[test]
fn the_end_of_an_answer_is_what_the_template_writes_behind_it() {
    for (source, end) in [
        ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", "<|im_end|>"),
        ("{% for m in messages %}{{ m.content }} {{ eos_token }}{% endfor %}", "</s>"),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", ""),
        ("{{ raise_exception('no') }}", ""),
    ] {
        assert_eq!(template(source).unwrap().turn_end(), end, "{source}");
    }
}

/// `tests/fixtures/make_text_reference.py` says what the fixture is.
#[test]
fn prompts_are_those_that_transformers_renders() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/texts");
    let reference: Json = serde_json::from_slice(&std::fs::read(folder.join("prompts.json")).unwrap()).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    let (mut rendered, mut refused) = (0, 0);
    for (name, prompts) in reference["prompts"].as_object().unwrap() {
        let source = std::fs::read_to_string(folder.join(format!("templates/{name}.jinja"))).unwrap();
        let template = ChatTemplate::new(&source.as_str().into(), &reference["special"]).unwrap();
        assert_eq!(prompts.as_array().unwrap().len(), cases.len());
        for (index, (case, prompt)) in cases.iter().zip(prompts.as_array().unwrap()).enumerate() {
            let list = |key: &str| case.get(key).and_then(Json::as_array).cloned();
            let flag = |key: &str| case.get(key).and_then(Json::as_bool);
            let inputs = TemplateInputs {
                messages: list("messages").unwrap(),
                tools: list("tools"),
                documents: list("documents"),
                thinking: flag("enable_thinking"),
                add_generation_prompt: flag("add_generation_prompt") == Some(true),
                continue_last: flag("continue_final_message") == Some(true),
                more: case["more"].as_object().unwrap().clone(),
            };
            match (template.render_inputs(&inputs), prompt.as_str()) {
                (Ok(ours), Some(theirs)) => assert_eq!(ours, theirs, "{name}, conversation {index}"),
                (Err(_), None) => refused += 1,
                (ours, theirs) => panic!("{name}, conversation {index}: {ours:?}, expected {theirs:?}"),
            }
            rendered += 1;
        }
    }
    assert!(rendered > 150 && refused > 5, "{rendered} {refused}");
}
