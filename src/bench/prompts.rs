//! Conversations of exactly so many tokens. Each variant's message begins with another word, as prompts of real chats do.

use crate::engine::{ChatMessage, Role};

/// Plain words, one after the other, again and again.
const TEXT: &str = "The river rises in the hills above the town and runs slowly past the old mill before it turns toward \
    the sea. In spring the water is high and the meadows on both sides are flooded for a week or two; the farmers move \
    their cattle up the slope and wait. A narrow bridge of grey stone carries the road to the market. On Saturdays it \
    is crowded with carts, children and dogs, and nobody minds if somebody stops in the middle to look down at the \
    fish. The miller says that his grandfather once caught a pike as long as his arm there. Most people do not believe \
    him, but they like to hear the story. When the wind comes from the west, one can smell salt, and the gulls follow \
    the boats as far as the second bend. Which of these things would you remember, and why?";

/// What fills up the last tokens: each is one or two in any byte-level vocabulary.
const FILLERS: [&str; 3] = [" a", ".", " 1"];

/// Makes a conversation's whole prompt.
pub type Tokenize<'a, E> = dyn Fn(&[ChatMessage]) -> Result<Vec<u32>, E> + 'a;

/// `Err(n)` where there is none, mostly because the template is longer than that: the closest one has n tokens. `tokenize`
/// makes a conversation's whole prompt.
pub fn conversation<E>(
    tokens: usize,
    variant: usize,
    tokenize: &Tokenize<'_, E>,
) -> Result<Result<Vec<ChatMessage>, usize>, E> {
    let words = || TEXT.split_whitespace().cycle().skip(variant % TEXT.split_whitespace().count());
    let message = |text: String| vec![ChatMessage::new(Role::User, text)];
    let of_words = |count: usize| message(words().take(count).collect::<Vec<_>>().join(" "));
    let length = |messages: &[ChatMessage]| tokenize(messages).map(|prompt| prompt.len());

    let one_word = length(&of_words(1))?;
    if one_word > tokens {
        return Ok(Err(one_word));
    }
    // The most words that fit: at least one does, and each is a token or more.
    let (mut fits, mut too_many) = (1, tokens + 1);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if length(&of_words(middle))? <= tokens { fits = middle } else { too_many = middle }
    }
    let mut text = words().take(fits).collect::<Vec<_>>().join(" ");
    let mut found = length(&message(text.clone()))?;
    'fill: while found < tokens {
        for filler in FILLERS {
            let longer = length(&message(format!("{text}{filler}")))?;
            if (found + 1..=tokens).contains(&longer) {
                (text, found) = (text + filler, longer);
                continue 'fill;
            }
        }
        return Ok(Err(found));
    }
    Ok(Ok(message(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A template of 5 tokens, and a token for every three letters of a word.
    fn tokenize(messages: &[ChatMessage]) -> Result<Vec<u32>, ()> {
        let of_words = |text: &str| text.split_whitespace().map(|word| word.len().div_ceil(3)).sum::<usize>();
        Ok(vec![0; 5 + messages.iter().map(|message| of_words(&message.content)).sum::<usize>()])
    }

    #[test]
    fn every_length_is_met_exactly() {
        for tokens in [8, 9, 10, 50, 128, 511, 1024] {
            for variant in [0, 1, 2, 500] {
                let messages = conversation(tokens, variant, &tokenize).unwrap().unwrap();
                assert_eq!(tokenize(&messages).unwrap().len(), tokens, "{messages:?}");
            }
        }
    }

    #[test]
    fn variants_begin_with_other_words() {
        let first = |variant| conversation(20, variant, &tokenize).unwrap().unwrap()[0].content[..6].to_owned();
        assert_eq!([first(0), first(1), first(2)], ["The ri", "river ", "rises "]);
    }

    #[test]
    fn shorter_than_the_template_is_not_possible() {
        assert_eq!(conversation(3, 0, &tokenize), Ok(Err(6)));
    }
}
