//! What people ask: short questions, texts to work on, code, lists. No two prompts of a run begin alike.

/// What some of the requests are about.
const PASSAGE: &str = "The railway reached the valley in 1887. Before that, the journey to the coast took two days with a cart, and \
    in winter nobody tried. Within ten years the number of people had doubled: a spinning mill stood by the river, there \
    was a second school, and the inn had been rebuilt in brick. Not everybody was pleased. The carters lost their work, \
    and the old families complained that bread was no longer baked in the village but came from the town on the first \
    train. When the line was closed in 1964, the same families wrote letters to keep it. Today a path for bicycles runs \
    where the rails were, and the station is a library.";

const ASKS: [&str; 16] = [
    "What is the capital of Australia, and why is it not Sydney?",
    "Explain to a child why the sky is blue.",
    "Summarize this in two sentences:\n\n{passage}",
    "Write a Python function that returns the longest common prefix of a list of strings, with two examples.",
    "Name five rivers in Europe, with the country in which each of them begins.",
    "Give me a recipe for a simple vegetable soup for four people, with amounts.",
    "Who is affected by the change in this text, and how? Answer in a list.\n\n{passage}",
    "Translate into French: 'The train was late, so we walked along the river and missed the beginning of the film.'",
    "What is the difference between a process and a thread?",
    "Write a polite e-mail that moves a meeting from Tuesday to Thursday because a colleague is ill.",
    "Rewrite this text for a tourist leaflet, in about the same length:\n\n{passage}",
    "A shirt costs 40 euros after a discount of 20 %. What did it cost before? Show the steps.",
    "Why does SQL have both WHERE and HAVING? Give a short example of each.",
    "Suggest three titles for this text and say which one is best:\n\n{passage}",
    "Plan a weekend in a small town by the sea for a family with two children.",
    "What do you say to somebody who has failed an exam?",
];

/// The `index`th request's message.
pub fn prompt(index: usize) -> String {
    let ask = ASKS[index % ASKS.len()].replace("{passage}", PASSAGE);
    format!("Question {}. {ask}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_otherwise_and_some_are_long() {
        let prompts: Vec<String> = (0..200).map(prompt).collect();
        let beginnings: std::collections::BTreeSet<&str> =
            prompts.iter().map(|prompt| prompt.split('.').next().unwrap()).collect();
        assert_eq!(beginnings.len(), prompts.len());
        assert!(prompts.iter().any(|prompt| prompt.len() < 100) && prompts.iter().any(|prompt| prompt.len() > 700));
        assert!(prompts.iter().all(|prompt| !prompt.contains('{')));
    }
}
