use pretty_assertions::assert_eq;

use super::super::lane::{MeasuredRates, RemoteStatus};
use super::*;

fn lane(id: LaneId, context_limit: usize, state: LaneState) -> LaneStatus {
    LaneStatus {
        id,
        execution_provider: format!("{id} provider"),
        device: None,
        emulated: false,
        state,
        context_limit,
        threads: None,
        memory: None,
        placement: Vec::new(),
        measured: MeasuredRates::default(),
        remote: None,
        running: 0,
        waiting: 0,
    }
}

fn facts(lanes: &[LaneStatus], reusable_tokens: usize) -> Vec<LaneFacts<'_>> {
    lanes.iter().map(|status| LaneFacts { status, reusable_tokens }).collect()
}

fn two(npu: LaneState, cpu: LaneState) -> [LaneStatus; 2] {
    [lane(LaneId::Npu, 512, npu), lane(LaneId::Cpu, 8192, cpu)]
}

fn absent() -> LaneState {
    LaneState::Absent { reason: "no NPU found".into() }
}

fn failed() -> LaneState {
    LaneState::Failed { reason: "it hung".into() }
}

fn loading() -> LaneState {
    LaneState::Loading { since: std::time::Instant::now() }
}

#[derive(Clone, Copy)]
struct Question {
    prompt: usize,
    answer: usize,
    policy: Policy,
    requested: Option<LaneId>,
    emulation: bool,
    remote: RemoteUse,
}

const NO_CONSENT: RemoteUse = RemoteUse { consent: false, unsuited: None };
const CONSENT: RemoteUse = RemoteUse { consent: true, unsuited: None };

const SHORT: Question =
    Question { prompt: 50, answer: 1024, policy: Policy::Auto, requested: None, emulation: false, remote: NO_CONSENT };

fn ask(lanes: &[LaneStatus], question: Question) -> Result<RoutingDecision, RouteError> {
    let Question { prompt, answer, policy, requested, emulation, remote } = question;
    let lanes = facts(lanes, 0);
    route(&RoutingFacts {
        prompt_tokens: prompt,
        answer_tokens: answer,
        lanes: &lanes,
        policy,
        requested,
        emulation,
        remote,
    })
}

/// Lane, rule, tokens needed, and why not the other.
fn decide(lanes: &[LaneStatus], question: Question) -> (LaneId, Rule, usize, String) {
    let decision = ask(lanes, question).unwrap();
    let rejected: Vec<String> = decision.rejected.iter().map(|r| format!("{}: {}", r.lane, r.reason)).collect();
    (decision.lane, decision.rule, decision.needed_tokens, rejected.join(", "))
}

#[test]
fn what_is_ready_and_what_fits() {
    use LaneId::{Cpu, Npu};
    use LaneState::Ready;
    type Case = (&'static str, [LaneStatus; 2], Question, (LaneId, Rule, usize, &'static str));
    let prompt = |prompt| Question { prompt, ..SHORT };
    let cases: Vec<Case> = vec![
        ("only one is ready", two(absent(), Ready), SHORT, (Cpu, Rule::OnlyReady, 178, "npu: no NPU found")),
        ("the other loads", two(loading(), Ready), SHORT, (Cpu, Rule::OnlyReady, 178, "npu: still loading")),
        ("the other broke", two(failed(), Ready), SHORT, (Cpu, Rule::OnlyReady, 178, "npu: failed: it hung")),
        // 384 + 128 = 512: an answer of up to 1024 tokens does not keep a short question from the NPU.
        ("short", two(Ready, Ready), prompt(384), (Npu, Rule::FirstThatFits, 512, "cpu: npu comes first")),
        (
            "one token too many",
            two(Ready, Ready),
            prompt(385),
            (Cpu, Rule::FirstThatFits, 513, "npu: 513 tokens, context of 512"),
        ),
        // An answer that may be no longer than 20 tokens needs no room for more.
        (
            "a short answer",
            two(Ready, Ready),
            Question { prompt: 492, answer: 20, ..SHORT },
            (Npu, Rule::FirstThatFits, 512, "cpu: npu comes first"),
        ),
        (
            "too long for all",
            two(Ready, Ready),
            prompt(9000),
            (Cpu, Rule::LongestContext, 9128, "npu: 9128 tokens, context of 512"),
        ),
        (
            "asked for",
            two(Ready, Ready),
            Question { requested: Some(Cpu), ..SHORT },
            (Cpu, Rule::Requested, 178, "npu: you asked for cpu"),
        ),
        (
            "asked for while it loads",
            two(loading(), Ready),
            Question { requested: Some(Npu), ..SHORT },
            (Npu, Rule::Requested, 178, "cpu: you asked for npu"),
        ),
        (
            "asked for again",
            two(failed(), Ready),
            Question { requested: Some(Npu), ..SHORT },
            (Npu, Rule::Requested, 178, "cpu: you asked for npu"),
        ),
    ];
    for (name, lanes, question, (lane, rule, needed, rejected)) in cases {
        assert_eq!(decide(&lanes, question), (lane, rule, needed, rejected.to_string()), "{name}");
    }
}

#[test]
fn policies_by_name() {
    use LaneId::{Cpu, Npu};
    let lanes = two(LaneState::Ready, LaneState::Ready);
    let cases = [
        // The prompt and one token are enough: an answer that outgrows the lane moves on.
        (Policy::Npu, 511, (Npu, Rule::Preferred, 512, "cpu: npu comes first")),
        (Policy::Npu, 512, (Cpu, Rule::FirstThatFits, 513, "npu: 513 tokens, context of 512")),
        (Policy::Cpu, 50, (Cpu, Rule::Preferred, 51, "npu: cpu comes first")),
        (Policy::Efficient, 511, (Npu, Rule::Efficient, 512, "cpu: npu comes first")),
        (Policy::Efficient, 512, (Cpu, Rule::FirstThatFits, 513, "npu: 513 tokens, context of 512")),
    ];
    for (policy, prompt, (lane, rule, needed, rejected)) in cases {
        let question = Question { prompt, policy, ..SHORT };
        assert_eq!(decide(&lanes, question), (lane, rule, needed, rejected.to_string()), "{policy:?} {prompt}");
    }
    // A policy is a wish: without its lane another one answers, and says why.
    let question = Question { policy: Policy::Npu, ..SHORT };
    let expected = (Cpu, Rule::OnlyReady, 51, "npu: no NPU found".to_string());
    assert_eq!(decide(&two(absent(), LaneState::Ready), question), expected);
}

fn measured(prefill: Option<f64>, decode: Option<f64>) -> MeasuredRates {
    MeasuredRates { prefill, decode }
}

#[test]
fn the_fastest_lane_is_known_once_all_were_measured() {
    use LaneId::{Cpu, Npu};
    let none = measured(None, None);
    // 200 prompt tokens and the 128 that are expected of an answer.
    let question = Question { prompt: 200, policy: Policy::Fastest, ..SHORT };
    type Case = (&'static str, MeasuredRates, MeasuredRates, LaneId, Rule, &'static str);
    let cases: [Case; 6] = [
        ("nothing is known", none, none, Npu, Rule::Unmeasured, "cpu: npu is measured first"),
        ("one is known", measured(Some(1000.0), Some(32.0)), none, Cpu, Rule::Unmeasured, "npu: cpu is measured first"),
        (
            // 0.2 + 4 s against 1 + 2 s
            "decode decides",
            measured(Some(1000.0), Some(32.0)),
            measured(Some(200.0), Some(64.0)),
            Cpu,
            Rule::Fastest,
            "npu: est. 4.2 s, cpu 3.0 s",
        ),
        (
            // 0.2 + 4 s against 4 + 2 s
            "prefill decides",
            measured(Some(1000.0), Some(32.0)),
            measured(Some(50.0), Some(64.0)),
            Npu,
            Rule::Fastest,
            "cpu: est. 6.0 s, npu 4.2 s",
        ),
        (
            // 328 tokens at 32 a second, 10.25 s, against 1 + 2 s
            "a prefill too short to measure counts as decode",
            measured(None, Some(32.0)),
            measured(Some(200.0), Some(64.0)),
            Cpu,
            Rule::Fastest,
            "npu: est. 10.2 s, cpu 3.0 s",
        ),
        (
            "without decode nothing is predicted",
            measured(Some(1000.0), None),
            measured(Some(200.0), Some(64.0)),
            Npu,
            Rule::Unmeasured,
            "cpu: npu is measured first",
        ),
    ];
    for (name, npu, cpu, lane, rule, rejected) in cases {
        let mut lanes = two(LaneState::Ready, LaneState::Ready);
        (lanes[0].measured, lanes[1].measured) = (npu, cpu);
        assert_eq!(decide(&lanes, question), (lane, rule, 328, rejected.to_string()), "{name}");
        // Where only one fits, there is nothing to compare.
        let long = Question { prompt: 500, ..question };
        let expected = (Cpu, Rule::FirstThatFits, 628, "npu: 628 tokens, context of 512".to_string());
        assert_eq!(decide(&lanes, long), expected, "{name}");
    }
}

#[test]
fn a_simulator_is_taken_only_by_who_asked_for_it() {
    use LaneId::{Cpu, Npu};
    let mut lanes = two(LaneState::Ready, LaneState::Ready);
    lanes[0].emulated = true;
    for policy in [Policy::Auto, Policy::Npu, Policy::Fastest, Policy::Efficient] {
        let question = Question { policy, ..SHORT };
        let decision = ask(&lanes, question).unwrap();
        assert_eq!((decision.lane, decision.emulated), (Cpu, false), "{policy:?}");
        assert_eq!(decision.rejected[0].reason, "emulated, which must be asked for");
        let decision = ask(&lanes, Question { emulation: true, ..question }).unwrap();
        assert_eq!((decision.lane, decision.emulated), (Npu, true), "{policy:?}");
    }
    assert_eq!(decide(&lanes, Question { requested: Some(Npu), ..SHORT }).0, Npu);
}

#[test]
fn a_lane_that_is_absent_is_never_taken_silently() {
    let error = ask(&two(absent(), LaneState::Ready), Question { requested: Some(LaneId::Npu), ..SHORT }).unwrap_err();
    assert_eq!(error.to_string(), "the npu lane was asked for, but it is not ready: no NPU found");
}

#[test]
fn no_lane_at_all_says_why_for_each() {
    let error = ask(&two(absent(), failed()), SHORT).unwrap_err().to_string();
    assert!(error.starts_with("no lane is ready: npu: no NPU found; cpu: failed: it hung"), "{error}");
}

#[test]
fn the_prediction_is_of_the_new_tokens_at_the_measured_rates() {
    let mut cpu = lane(LaneId::Cpu, 8192, LaneState::Ready);
    let predict = |lane: &LaneStatus, reusable_tokens| {
        let lanes = facts(std::slice::from_ref(lane), reusable_tokens);
        let decision = route(&RoutingFacts {
            prompt_tokens: 300,
            answer_tokens: 10,
            lanes: &lanes,
            policy: Policy::Auto,
            requested: None,
            emulation: false,
            remote: NO_CONSENT,
        });
        let decision = decision.unwrap();
        (decision.predicted_ttft, decision.predicted_total)
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(predict(&cpu, 0), (None, None));
    cpu.measured.prefill = Some(600.0);
    assert_eq!(predict(&cpu, 0), (ms(500), None));
    cpu.measured.decode = Some(40.0);
    assert_eq!(predict(&cpu, 0), (ms(500), ms(750)));
    assert_eq!(predict(&cpu, 240), (ms(100), ms(350)));
}

fn server(privacy: Privacy, place: RemotePlace) -> LaneStatus {
    let remote = RemoteStatus {
        url: "https://h.example/v1".into(),
        host: "h.example".into(),
        model: None,
        is_private: true,
        context_is_assumed: false,
        privacy,
        place,
        price: None,
    };
    LaneStatus { remote: Some(remote), ..lane(LaneId::Remote, 30_000, LaneState::Ready) }
}

/// The NPU with 512, the CPU with 8192, and a server with 30,000 tokens, in the order that its place gives.
fn three(privacy: Privacy, place: RemotePlace) -> Vec<LaneStatus> {
    let mut lanes = Vec::from(two(LaneState::Ready, LaneState::Ready));
    let at = if place == RemotePlace::First { 0 } else { 2 };
    lanes.insert(at, server(privacy, place));
    lanes
}

#[test]
fn a_server_takes_what_outgrows_this_machine_and_nothing_before_it() {
    use LaneId::{Cpu, Npu, Remote};
    let lanes = three(Privacy::Allow, RemotePlace::Outgrown);
    let of = |policy, prompt| {
        let (lane, rule, _, rejected) = decide(&lanes, Question { prompt, policy, ..SHORT });
        (lane, rule, rejected)
    };
    for (policy, short) in [
        (Policy::Auto, (Npu, Rule::FirstThatFits)),
        (Policy::Npu, (Npu, Rule::Preferred)),
        (Policy::Cpu, (Cpu, Rule::Preferred)),
        (Policy::Efficient, (Npu, Rule::Efficient)),
        // Never measured, and still not to be measured by itself.
        (Policy::Fastest, (Npu, Rule::Unmeasured)),
    ] {
        assert_eq!((of(policy, 50).0, of(policy, 50).1), short, "{policy:?}");
        assert_eq!(of(policy, 8000).0, Cpu);
        let (lane, rule, rejected) = of(policy, 8192);
        assert_eq!((lane, rule), (Remote, Rule::Outgrown), "{policy:?}");
        assert!(rejected.contains("cpu: 8") && rejected.contains("context of 8192"), "{rejected}");
    }
    assert_eq!(of(Policy::Auto, 8000).2, "npu: 8128 tokens, context of 512, remote: cpu comes first");
    // What no lane holds goes to the longest one, which drops the oldest turns.
    assert_eq!((of(Policy::Auto, 40_000).0, of(Policy::Auto, 40_000).1), (Remote, Rule::LongestContext));
    // Where this machine has no lane, the server is the only one.
    let mut lanes = lanes.clone();
    (lanes[0].state, lanes[1].state) = (absent(), failed());
    assert_eq!((decide(&lanes, SHORT).0, decide(&lanes, SHORT).1), (Remote, Rule::OnlyReady));
}

#[test]
fn the_settings_may_put_a_server_first_or_behind_its_name() {
    use LaneId::{Cpu, Npu, Remote};
    let lanes = three(Privacy::Allow, RemotePlace::First);
    let of = |policy| decide(&lanes, Question { policy, ..SHORT });
    assert_eq!((of(Policy::Auto).0, of(Policy::Auto).1), (Remote, Rule::FirstThatFits));
    assert_eq!((of(Policy::Fastest).0, of(Policy::Fastest).1), (Remote, Rule::Unmeasured));
    // These name another one.
    assert_eq!((of(Policy::Efficient).0, of(Policy::Cpu).0), (Npu, Cpu));

    let lanes = three(Privacy::Allow, RemotePlace::Named);
    for prompt in [50, 8192, 40_000] {
        let (lane, _, _, rejected) = decide(&lanes, Question { prompt, ..SHORT });
        assert!(lane != Remote && rejected.contains("remote: only what names it"), "{prompt}: {rejected}");
    }
    assert_eq!(decide(&lanes, Question { requested: Some(Remote), ..SHORT }).1, Rule::Requested);
}

#[test]
fn nothing_goes_to_a_server_that_is_not_allowed() {
    use LaneId::{Cpu, Remote};
    let unsuited = RemoteUse { consent: true, unsuited: Some("raw text stays here") };
    for (privacy, remote, allowed, reason) in [
        (Privacy::Allow, NO_CONSENT, true, ""),
        (Privacy::Ask, CONSENT, true, ""),
        (Privacy::Ask, NO_CONSENT, false, "not allowed to send this to h.example"),
        (Privacy::Never, CONSENT, false, "privacy is 'never'"),
        (Privacy::Allow, unsuited, false, "raw text stays here"),
    ] {
        for place in [RemotePlace::Outgrown, RemotePlace::First, RemotePlace::Named] {
            let lanes = three(privacy, place);
            for policy in [Policy::Auto, Policy::Npu, Policy::Cpu, Policy::Fastest, Policy::Efficient] {
                for prompt in [10, 600, 8192, 40_000] {
                    let question = Question { prompt, policy, remote, ..SHORT };
                    let decision = ask(&lanes, question).unwrap();
                    assert!(allowed || decision.lane != Remote, "{privacy:?} {place:?} {policy:?} {prompt}");
                    let rejection = decision.rejected.iter().find(|other| other.lane == Remote);
                    assert!(allowed || rejection.unwrap().reason == reason, "{rejection:?}");
                }
            }
            let asked = ask(&lanes, Question { requested: Some(Remote), remote, ..SHORT });
            match asked {
                Ok(decision) => assert!(allowed && decision.lane == Remote),
                Err(error) => assert!(!allowed && error.to_string().contains(reason), "{error}"),
            }
        }
    }
    let error = ask(&three(Privacy::Ask, RemotePlace::Outgrown), Question { requested: Some(Remote), ..SHORT });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("--allow-remote") && error.contains("privacy = \"allow\""), "{error}");
    let error = ask(&two(LaneState::Ready, LaneState::Ready), Question { requested: Some(Remote), ..SHORT });
    assert!(error.unwrap_err().to_string().contains("no server is named"));
    // Not even where nobody else is ready.
    let mut lanes = three(Privacy::Ask, RemotePlace::First);
    (lanes[1].state, lanes[2].state) = (absent(), failed());
    let error = ask(&lanes, SHORT).unwrap_err().to_string();
    assert!(error.contains("remote: not allowed to send this to h.example"), "{error}");
    assert_eq!(decide(&three(Privacy::Ask, RemotePlace::Outgrown), Question { prompt: 8192, ..SHORT }).0, Cpu);
}

/// Of 512 tokens a quarter is left for an answer, and of 8192 the answer that was asked for.
#[test]
fn a_last_message_is_too_long_by_so_many_tokens() {
    let lanes = two(LaneState::Ready, LaneState::Ready);
    let excess = |prompt: usize, requested, message: usize| {
        let decision = ask(&lanes, Question { prompt, requested, ..SHORT }).unwrap();
        let parts = PromptParts { system: 30, history: prompt - 30 - message, message };
        RoutingDecision { parts: Some(parts), ..decision }.excess()
    };
    assert_eq!(excess(400, Some(LaneId::Npu), 354), None);
    assert_eq!(excess(400, Some(LaneId::Npu), 355), Some(1));
    // An answer that outgrows the NPU moves to the CPU.
    assert_eq!(excess(384, None, 354), None);
    // Old turns can be left out.
    assert_eq!(excess(9000, None, 100), None);
    assert_eq!(excess(9000, None, 8000), Some(8030 - (8192 - 1024)));
    let unknown = ask(&lanes, Question { prompt: 9000, ..SHORT }).unwrap();
    assert_eq!((unknown.excess(), unknown.prompt_room()), (None, 8192 - 1024));
}
