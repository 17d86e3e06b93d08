use pretty_assertions::assert_eq;

use super::*;
use crate::config::TokenPriceSettings;
use crate::engine::{
    LaneChange, MeasuredRates, Policy, PrefillProgress, Price, Privacy, RemotePlace, RemoteStatus, RemoteUsage,
    RoutingDecision, Rule, Timings, Token,
};
use crate::ledger::LeftOut;

struct Desk {
    root: tempfile::TempDir,
    books: Books,
}

impl Desk {
    /// A machine whose package takes nothing until a test says so.
    fn new(cost: &CostSettings) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("class/powercap/intel-rapl:0")).unwrap();
        let set = |file: &str, text: &str| {
            std::fs::write(root.path().join("class/powercap/intel-rapl:0").join(file), text).unwrap();
        };
        set("name", "package-0");
        set("energy_uj", "1000000");
        let ledger = Ledger::new(root.path().join("ledger.jsonl"));
        let books = Books::new(root.path(), ledger, cost, "run");
        Self { root, books }
    }

    fn use_energy(&self, microjoules: u64) {
        let path = self.root.path().join("class/powercap/intel-rapl:0/energy_uj");
        std::fs::write(path, (1_000_000 + microjoules).to_string()).unwrap();
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        assert_eq!(self.books.inner.ledger.read(|entry| entries.push(entry)).unwrap(), LeftOut::default());
        entries
    }
}

fn routed(lane: LaneId, emulated: bool) -> GenerationEvent {
    GenerationEvent::Routed(RoutingDecision {
        lane,
        execution_provider: "CPUExecutionProvider".into(),
        emulated,
        policy: Policy::Auto,
        rule: Rule::FirstThatFits,
        prompt_tokens: 40,
        whole_prompt_tokens: None,
        parts: None,
        answer_tokens: 10,
        needed_tokens: 50,
        context_limit: 100,
        predicted_ttft: None,
        predicted_total: None,
        rejected: Vec::new(),
    })
}

fn token(lane: LaneId) -> GenerationEvent {
    GenerationEvent::Token(Token {
        text: "secret".into(),
        thinking: String::new(),
        thinks: false,
        tool_calls: Vec::new(),
        logprobs: None,
        id: 7,
        at: Instant::now(),
        lane,
    })
}

fn finished(reason: FinishReason, usage: Usage) -> GenerationEvent {
    GenerationEvent::Finished(Finished { reason, usage, timings: Timings::default() })
}

fn lane(state: LaneState) -> LaneStatus {
    LaneStatus {
        id: LaneId::Npu,
        execution_provider: "QNNExecutionProvider".into(),
        device: None,
        emulated: true,
        state,
        context_limit: 100,
        threads: None,
        memory: None,
        placement: Vec::new(),
        measured: MeasuredRates::default(),
        remote: None,
        running: 0,
        waiting: 0,
    }
}

const USAGE: Usage =
    Usage { prompt_tokens: 40, completion_tokens: 2, thinking_tokens: 0, reused_tokens: 30, remote: None };

/// 9 J at 0.40 a kWh are 9 / 3,600,000 * 0.40 = 0.000001; 40 tokens in at 1 and 2 out at 5 per million are 0.00005.
#[test]
fn a_finished_answer_is_measured_priced_and_written() {
    let cost = CostSettings {
        currency: Some("EUR".into()),
        electricity_per_kwh: Some(0.4),
        cloud_per_million: Some(TokenPriceSettings { input: 1.0, output: 5.0 }),
    };
    let desk = Desk::new(&cost);
    let mut tab = desk.books.open("tiny");
    for event in [routed(LaneId::Cpu, false), token(LaneId::Cpu), token(LaneId::Cpu)] {
        tab.note(&event);
    }
    std::thread::sleep(Duration::from_millis(120));
    desk.use_energy(9_000_000);
    tab.note(&finished(FinishReason::Stop, USAGE));
    let bill = tab.close();

    let Bill { entry, energy, complaint } = &bill;
    assert_eq!(complaint, &None);
    let energy = energy.measured().unwrap();
    assert!((energy.span.joules - 9.0).abs() < 1.0, "{energy:?}");
    assert_eq!(energy.above_idle, Reading::Unavailable("no idle time was seen".into()));
    assert_eq!((entry.model.as_str(), entry.lane.as_str(), entry.via.as_str()), ("tiny", "cpu", "run"));
    assert_eq!((entry.tokens_in, entry.tokens_reused, entry.tokens_out), (40, 30, 2));
    assert_eq!((entry.finish.as_str(), entry.emulated), ("stop", false));
    let prices = entry.prices.as_ref().unwrap();
    assert!((prices.electricity(9.0).unwrap() - 1e-6).abs() < 1e-15);
    assert!((prices.cloud(entry.tokens_in, entry.tokens_out).unwrap() - 5e-5).abs() < 1e-15);
    assert_eq!(desk.entries(), std::slice::from_ref(entry));
    let text = std::fs::read_to_string(desk.books.inner.ledger.path()).unwrap();
    assert!(!text.contains("secret"), "{text}");
}

/// Idle power is looked for after the answer where somebody has the patience: none is used then, so nothing is subtracted.
#[test]
fn idle_power_can_be_waited_for() {
    let desk = Desk::new(&CostSettings::default());
    let tab = desk.books.open("tiny");
    std::thread::sleep(Duration::from_millis(120));
    desk.use_energy(9_000_000);
    let root = desk.root.path().to_path_buf();
    let idling = std::thread::spawn(move || {
        for step in 1..20_u64 {
            std::thread::sleep(Duration::from_millis(50));
            let path = root.join("class/powercap/intel-rapl:0/energy_uj");
            std::fs::write(path, (10_000_000 + step * 5000).to_string()).unwrap();
        }
    });
    let bill = tab.close_after(Duration::from_millis(900));
    idling.join().unwrap();
    let energy = bill.energy.measured().unwrap();
    // 5 mJ in 50 ms, as far as threads sleep on time.
    let idle = *energy.idle_watts.measured().unwrap();
    assert!((0.01..0.5).contains(&idle), "{idle}");
    assert!(energy.above_idle.measured().is_some_and(|joules| *joules < energy.span.joules), "{energy:?}");
}

#[test]
fn an_answer_that_moved_or_was_cancelled_says_so() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let desk = Desk::new(&CostSettings::default());
    let told = heard.clone();
    let books = desk.books.clone().tell_faults(Box::new(move |via, what| {
        told.lock().unwrap().push(format!("{via}: {what}"));
    }));
    let mut tab = books.open("tiny");
    tab.note(&routed(LaneId::Npu, true));
    tab.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 30, total: 40, reused: 30 }));
    tab.note(&token(LaneId::Npu));
    tab.note(&GenerationEvent::LaneChanged(LaneChange {
        from: LaneId::Npu,
        to: LaneId::Cpu,
        after_tokens: 1,
        context_limit: 100,
        emulated: false,
        reason: "it failed".into(),
    }));
    tab.note(&GenerationEvent::PrefillProgress(PrefillProgress { done: 0, total: 41, reused: 0 }));
    tab.note(&token(LaneId::Cpu));
    // Nobody waited for the end.
    drop(tab);
    let [entry] = &desk.entries()[..] else { panic!("one line") };
    assert_eq!((entry.lane.as_str(), entry.emulated, entry.finish.as_str()), ("npu+cpu", true, "cancelled"));
    assert_eq!((entry.tokens_in, entry.tokens_reused, entry.tokens_out), (40, 30, 2));
    assert_eq!(entry.prices, None);

    let mut tab = books.open("tiny");
    tab.note(&finished(FinishReason::Error("the model is gone".into()), Usage::default()));
    let entry = tab.close().entry;
    assert_eq!((entry.lane.as_str(), entry.finish.as_str(), entry.tokens_out), ("", "error", 0));
    // A lane that failed is told of once, however often somebody looks.
    let mut lanes = vec![lane(LaneState::Ready), lane(LaneState::Loading { since: Instant::now() })];
    books.observe(&lanes);
    lanes.push(lane(LaneState::Failed { reason: "device lost".into() }));
    books.observe(&lanes);
    books.observe(&lanes);
    assert_eq!(*heard.lock().unwrap(), ["run: the model is gone", "run: the npu lane failed: device lost"]);
}

#[test]
fn a_remote_bill_is_kept_in_the_currency_of_the_settings() {
    let cost = CostSettings { currency: Some("CHF".into()), ..CostSettings::default() };
    let desk = Desk::new(&cost);
    let price = Price { per_million: TokenPrice { input: 1.0, output: 5.0 }, currency: None };
    let server = RemoteStatus {
        url: "https://h.example/v1".into(),
        host: "h.example".into(),
        model: None,
        is_private: true,
        context_is_assumed: false,
        privacy: Privacy::Allow,
        place: RemotePlace::Named,
        price: Some(price),
    };
    desk.books.observe(&[LaneStatus { id: LaneId::Remote, remote: Some(server), ..lane(LaneState::Ready) }]);
    let mut tab = desk.books.open("tiny");
    tab.note(&routed(LaneId::Remote, false));
    // 1000 at 1 and 400 at 5 per million are 0.003.
    let remote = RemoteUsage { prompt_tokens: 1000, completion_tokens: 400, is_estimate: true };
    tab.note(&finished(FinishReason::Stop, Usage { remote: Some(remote), ..USAGE }));
    let entry = tab.close().entry;
    assert!((entry.remote_cost.unwrap() - 0.003).abs() < 1e-12);
    // Whatever this machine used meanwhile, the answer was made elsewhere.
    assert_eq!(entry.energy.reason.as_deref(), Some("another machine answered"));
    assert_eq!(entry.prices, Some(Prices { currency: "CHF".into(), ..Prices::default() }));
}

#[test]
fn a_ledger_that_cannot_be_written_is_said_once() {
    let root = tempfile::tempdir().unwrap();
    let books = Books::new(root.path(), Ledger::new(root.path().into()), &CostSettings::default(), "chat");
    let complaint = books.open("tiny").close().complaint.unwrap();
    assert!(complaint.contains("cannot be written") && complaint.contains("may be missing"), "{complaint}");
    assert_eq!(books.clone().open("tiny").close().complaint, None);
}

#[test]
fn without_a_sensor_the_reason_is_written() {
    let root = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(root.path().join("ledger.jsonl"));
    let books = Books::new(root.path(), ledger, &CostSettings::default(), "chat");
    let bill = books.open("tiny").close_after(Duration::from_secs(3600));
    let expected = EntryEnergy { reason: Some("no readable sensor".into()), ..EntryEnergy::default() };
    assert_eq!(bill.entry.energy, expected);
}
