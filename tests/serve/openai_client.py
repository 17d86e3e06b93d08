"""OpenAI's own client against the server at the address in the first argument; the second says what to try.

Everything that the client gives back is typed and was parsed by it; what is wrong ends the script with a traceback.
"""

import json
import sys

import openai
from openai import OpenAI
from pydantic import BaseModel, Field

client = OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key=sys.argv[3] if len(sys.argv) > 3 else "none", max_retries=0)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
MODEL = "smollm2-135m"


def chat():
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
    assert "Paris" in answer.choices[0].message.content, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    raw = client.chat.completions.with_raw_response.create(model=f"{MODEL}@cpu", messages=QUESTION, max_tokens=2)
    assert raw.headers["x-ortalk-lane"] == "cpu" and raw.headers["x-ortalk-route"] == "requested"
    assert raw.parse().choices[0].finish_reason == "length"
    traced = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=2, extra_body={"ortalk": {"route_trace": True}}
    )
    assert traced.ortalk["route"]["lane"] == "cpu", traced
    several = client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, seed=3, temperature=1, max_tokens=4)
    assert [choice.index for choice in several.choices] == [0, 1]


def streaming():
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == text
    # A client that has seen enough.
    with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True) as stream:
        next(iter(stream))


def logprobs():
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, logprobs=True, top_logprobs=2, max_tokens=6
    )
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content
    assert bytes(byte for token in tokens for byte in token.bytes).decode() == answer.choices[0].message.content
    assert all(len(token.top_logprobs) == 2 and token.logprob == token.top_logprobs[0].logprob for token in tokens)


def completions():
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", temperature=0, max_tokens=4, logprobs=2)
    assert answer.choices[0].text.startswith(" four"), answer
    assert len(answer.choices[0].logprobs.tokens) == 4
    pieces = client.completions.create(model=MODEL, prompt="One, two, three,", temperature=0, max_tokens=4, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == answer.choices[0].text


def responses():
    answer = client.responses.create(model=MODEL, input="What is the capital of France?", temperature=0)
    assert "Paris" in answer.output_text and answer.status == "completed", answer
    kinds, text = [], ""
    for event in client.responses.create(
        model=MODEL, input=QUESTION, instructions="Be brief.", temperature=0, max_output_tokens=24, stream=True
    ):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert text == event.response.output_text and text
    with client.responses.stream(model=MODEL, input=QUESTION, temperature=0) as stream:
        assert stream.get_final_response().output_text == answer.output_text


def models():
    ids = [model.id for model in client.models.list()]
    assert ids[0] == "SmolLM2-135M-Instruct" and f"{ids[0]}@cpu" in ids, ids
    assert client.models.retrieve(ids[0]).owned_by == "ortalk"


def errors():
    def fails(kind, **fields):
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **fields})
        except kind as error:
            return error
        raise AssertionError(f"{fields} was taken")

    wrong = fails(openai.BadRequestError, temperature=3)
    assert (wrong.param, wrong.code, wrong.type) == ("temperature", "invalid_value", "invalid_request_error"), wrong
    assert fails(openai.BadRequestError, extra_body={"audio": {}}).param == "audio"
    assert fails(openai.NotFoundError, model="gpt-4o").code == "model_not_found"


def key():
    client.models.list()
    for wrong in ["none", sys.argv[3] + "x"]:
        try:
            OpenAI(base_url=client.base_url, api_key=wrong, max_retries=0).models.list()
        except openai.AuthenticationError as error:
            assert error.code == "invalid_api_key"
        else:
            raise AssertionError("a wrong key was taken")


def json_object():
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Describe a cat as JSON."}],
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=300,
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict), answer


class City(BaseModel):
    """Its values have bounds: a small model may else write digits and letters until its answer is cut."""

    name: str = Field(max_length=40)
    country: str = Field(max_length=40)
    population: int = Field(ge=0, le=50_000_000)
    is_capital: bool


CITIES = "Paris Oslo Lima Rome Cairo Tokyo Delhi Berlin Madrid Vienna Warsaw Prague Athens Dublin Lisbon Quito Hanoi".split()
SUBJECTS = ["Describe the city of {}.", "What is {}?", "Tell me about {} as JSON."]


def schema(count):
    """Every answer parses and validates."""
    prompts = [subject.format(city) for subject in SUBJECTS for city in CITIES][:count]
    for index, prompt in enumerate(prompts):
        answer = client.chat.completions.parse(
            model=MODEL,
            messages=[{"role": "user", "content": prompt}],
            response_format=City,
            # Greedy ones and drawn ones.
            temperature=0 if index % 2 else 1,
            seed=index,
            max_tokens=300,
        )
        assert isinstance(answer.choices[0].message.parsed, City), (prompt, answer)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
                "required": ["city", "unit"],
                "additionalProperties": False,
            },
        },
    }
]


def tools():
    ask = [{"role": "user", "content": "What is the weather in Oslo?"}]
    for choice in ["required", {"type": "function", "function": {"name": "get_weather"}}]:
        request = dict(
            model=MODEL,
            messages=ask,
            tools=TOOLS,
            tool_choice=choice,
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=200,
        )
        answer = client.chat.completions.create(**request)
        assert answer.choices[0].finish_reason in ("tool_calls", "stop"), answer
        (call,) = answer.choices[0].message.tool_calls
        arguments = json.loads(call.function.arguments)
        assert call.function.name == "get_weather" and set(arguments) == {"city", "unit"}, answer
        assert arguments["unit"] in ("celsius", "fahrenheit")
        with client.chat.completions.stream(**request) as events:
            final = events.get_final_completion()
        assert final.choices[0].message.tool_calls[0].function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain, 7 degrees."}
    after = client.chat.completions.create(
        model=MODEL, messages=[*ask, answer.choices[0].message, result], tools=TOOLS, temperature=0, max_tokens=40
    )
    assert after.choices[0].message.content or after.choices[0].message.tool_calls, after
    none = client.chat.completions.create(model=MODEL, messages=ask, tools=TOOLS, tool_choice="none", max_tokens=8)
    assert not none.choices[0].message.tool_calls


what = sys.argv[2]
schema(int(what.removeprefix("schema:"))) if what.startswith("schema:") else globals()[what]()
