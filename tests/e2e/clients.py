#!/usr/bin/env python3
"""The server under its users' own clients: clients.py TENON MODEL.gguf   (PyPI: openai, anthropic, ollama, litellm, langchain-openai)

Serves MODEL with a template that writes tool calls, and asks through each client what people ask: answers, streams, tools, structured
output, embeddings, errors. Ends with "N passed, N failed"."""
import asyncio, json, os, sys, tempfile, time, urllib.request

from serving import serve

exe, model = sys.argv[1], sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
passed, failed = 0, []


def check(name, f):
    global passed
    try:
        ok = f()
        assert ok, "false"
        passed += 1
    except Exception as e:
        failed.append(name)
        print(f"FAIL {name}: {type(e).__name__}: {str(e)[:300]}")


template = tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False)
template.write(json.load(open(f"{here}/../golden/chat_templates/Qwen-Qwen3-0.6B.json"))["template"])
template.close()
server, url = serve(exe, model, "--alias", "small", "--context", "4096", "--embeddings", "--api-key", "secret", "--chat-template", template.name)

question = [{"role": "user", "content": "What is the weather in Paris? /no_think"}]
weather = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
           "required": ["city", "unit"], "additionalProperties": False}
tools = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": weather}}]
off = {"chat_template_kwargs": {"enable_thinking": False}}


def fits(arguments):
    a = json.loads(arguments) if isinstance(arguments, str) else arguments
    return set(a) == {"city", "unit"} and a["unit"] in ("celsius", "fahrenheit")


# ---- openai
import openai
from pydantic import BaseModel

c = openai.OpenAI(base_url=url + "/v1", api_key="secret")
common = dict(model="small", messages=question, temperature=0, max_tokens=24, extra_body=off)
whole = c.chat.completions.create(**common)


def streamed():
    parts = list(c.chat.completions.create(**common, stream=True, stream_options={"include_usage": True}))
    text = "".join(p.choices[0].delta.content or "" for p in parts if p.choices)
    return text == whole.choices[0].message.content and parts[-1].usage.completion_tokens == whole.usage.completion_tokens


def usage_as_it_grows():
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts = list(c.chat.completions.create(**common, stream=True, stream_options=options))
    counts = [p.usage.completion_tokens for p in parts]
    last = parts[-1].usage
    return counts == sorted(counts) and counts[-1] == whole.usage.completion_tokens and all(p.usage.prompt_tokens == last.prompt_tokens for p in parts)


class Person(BaseModel):
    name: str
    age: int


def called(**more):
    return c.chat.completions.create(model="small", messages=question, temperature=0, max_tokens=200, tools=tools, extra_body=off, **more)


def tool_round():
    calls = called(tool_choice="required").choices[0].message.tool_calls
    history = question + [{"role": "assistant", "tool_calls": [x.model_dump() for x in calls]}] + [
        {"role": "tool", "tool_call_id": x.id, "content": "21 degrees"} for x in calls]
    return c.chat.completions.create(model="small", messages=history, tools=tools, max_tokens=8, temperature=0, extra_body=off).choices[0]


def tools_or_form():
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": {**Person.model_json_schema(), "additionalProperties": False}}}
    for seed in range(6):
        r = c.chat.completions.create(model="small", messages=question, temperature=1, seed=seed, max_tokens=120, tools=tools, response_format=form, extra_body=off)
        m = r.choices[0].message
        if m.tool_calls:
            assert all(fits(x.function.arguments) for x in m.tool_calls)
        else:
            Person.model_validate_json(m.content)
    return True


def tool_stream():
    calls = {}
    for p in called(tool_choice="required", stream=True):
        for d in (p.choices[0].delta.tool_calls or []) if p.choices else []:
            call = calls.setdefault(d.index, {"name": "", "arguments": "", "pieces": 0})
            call["pieces"] += 1
            call["name"] += d.function.name or ""
            call["arguments"] += d.function.arguments or ""
    want = [(x.function.name, x.function.arguments) for x in called(tool_choice="required").choices[0].message.tool_calls]
    return [(x["name"], x["arguments"]) for x in calls.values()] == want and all(x["pieces"] > 2 for x in calls.values())


def refused(f, kind, word):
    try:
        f()
    except kind as e:
        return word in str(e)
    return False


async def many():
    a = openai.AsyncOpenAI(base_url=url + "/v1", api_key="secret")
    answers = await asyncio.gather(*[a.chat.completions.create(**common) for _ in range(8)])
    return all(x.choices[0].message.content == whole.choices[0].message.content for x in answers)


schema = {"name": "person", "schema": Person.model_json_schema() | {"additionalProperties": False}}
check("openai: chat", lambda: whole.choices[0].message.content and whole.usage.total_tokens > 0)
check("openai: stream", streamed)
check("openai: async, eight at once", lambda: asyncio.run(many()))
check("openai: n, logprobs", lambda: len(c.chat.completions.create(model="small", messages=question, n=3, logprobs=True, top_logprobs=4, max_tokens=5,
                                                                   temperature=1, seed=3).choices[2].logprobs.content[0].top_logprobs) == 4)
check("openai: completions", lambda: c.completions.create(model="small", prompt="Once upon a time", max_tokens=8, echo=True).choices[0].text.startswith("Once"))
check("openai: usage as it grows", usage_as_it_grows)
check("openai: tool required", lambda: all(fits(x.function.arguments) for x in called(tool_choice="required").choices[0].message.tool_calls))
check("openai: tool named", lambda: called(tool_choice={"type": "function", "function": {"name": "get_weather"}}).choices[0].finish_reason == "tool_calls")
check("openai: one call", lambda: len(called(tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls) == 1)
check("openai: tool auto", lambda: called(tool_choice="auto").choices[0].finish_reason in ("stop", "length", "tool_calls"))
check("openai: tool none", lambda: not called(tool_choice="none").choices[0].message.tool_calls)
check("openai: tool stream", tool_stream)
check("openai: tools or a form", tools_or_form)
check("openai: tool results", lambda: tool_round().message.content is not None)
check("openai: json schema", lambda: Person.model_validate_json(c.chat.completions.create(
    model="small", messages=question, max_tokens=120, extra_body=off, response_format={"type": "json_schema", "json_schema": schema}).choices[0].message.content))
check("openai: parse", lambda: isinstance(c.chat.completions.parse(model="small", messages=question, max_tokens=120, extra_body=off,
                                                                   response_format=Person).choices[0].message.parsed, Person))
check("openai: json mode", lambda: isinstance(json.loads(c.chat.completions.create(model="small", messages=question, max_tokens=60, extra_body=off,
                                                                                   response_format={"type": "json_object"}).choices[0].message.content), dict))
check("openai: responses", lambda: c.responses.create(model="small", input="Hello", max_output_tokens=200, temperature=0).output is not None)
check("openai: responses tools", lambda: [x for x in c.responses.create(
    model="small", input="Weather in Paris?", tools=[{"type": "function", "name": "get_weather", "parameters": weather, "strict": True}],
    tool_choice="required", max_output_tokens=300, reasoning={"effort": "low"}, temperature=0).output if x.type == "function_call" and fits(x.arguments)])
check("openai: responses parse", lambda: isinstance(c.responses.parse(model="small", input="A person", text_format=Person, max_output_tokens=400).output_parsed, Person))


def responses_stream():
    with c.responses.stream(model="small", input="Hello", max_output_tokens=64, temperature=0) as s:
        types = [e.type for e in s]
        final = s.get_final_response()
    return types[0] == "response.created" and types[-1] in ("response.completed", "response.incomplete") and final.usage.output_tokens > 0


check("openai: responses stream", responses_stream)
check("openai: embeddings", lambda: len(c.embeddings.create(model="small", input=["a", "b"]).data[1].embedding) > 100)
check("openai: models", lambda: [m.id for m in c.models.list()] == ["small"])
check("openai: unknown model", lambda: refused(lambda: c.chat.completions.create(model="none", messages=question), openai.NotFoundError, "none"))
check("openai: unknown field", lambda: refused(lambda: c.chat.completions.create(**{**common, "extra_body": {"frob": 1}}), openai.BadRequestError, "frob"))
check("openai: wrong key", lambda: refused(lambda: openai.OpenAI(base_url=url + "/v1", api_key="x").models.list(), openai.AuthenticationError, "key"))
check("openai: too long", lambda: refused(lambda: c.completions.create(model="small", prompt=[1] * 5000), openai.BadRequestError, "context"))

# ---- anthropic
import anthropic

a = anthropic.Anthropic(base_url=url, api_key="secret")
asked = dict(model="small", max_tokens=200, messages=question, extra_body={"temperature": 0})
claude_tools = [{"name": "get_weather", "description": "The weather of a city", "input_schema": weather}]


def anthropic_stream():
    with a.messages.stream(**asked) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    return text == "".join(b.text for b in final.content if b.type == "text")


def anthropic_tools():
    m = a.messages.create(**asked, tools=claude_tools, tool_choice={"type": "any"}, thinking={"type": "disabled"})
    uses = [b for b in m.content if b.type == "tool_use"]
    back = question + [{"role": "assistant", "content": [b.model_dump() for b in m.content]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": "21 degrees"} for b in uses]}]
    again = a.messages.create(**{**asked, "messages": back}, tools=claude_tools)
    return m.stop_reason == "tool_use" and all(fits(b.input) for b in uses) and again.content


def anthropic_tool_stream():
    with a.messages.stream(**asked, tools=claude_tools, tool_choice={"type": "tool", "name": "get_weather"}, thinking={"type": "disabled"}) as s:
        final = s.get_final_message()
    return all(fits(b.input) for b in final.content if b.type == "tool_use") and final.stop_reason == "tool_use"


check("anthropic: message", lambda: a.messages.create(**asked).content)
check("anthropic: stream", anthropic_stream)
check("anthropic: tools", anthropic_tools)
check("anthropic: tool stream", anthropic_tool_stream)
check("anthropic: count_tokens", lambda: a.messages.count_tokens(model="small", messages=question).input_tokens > 5)
check("anthropic: unknown model", lambda: refused(lambda: a.messages.create(**{**asked, "model": "none"}), anthropic.NotFoundError, "none"))

# ---- ollama
import ollama

o = ollama.Client(host=url, headers={"Authorization": "Bearer secret"})
check("ollama: chat", lambda: o.chat(model="small", messages=question, think=False, options={"num_predict": 12}).message.content is not None)
check("ollama: stream", lambda: "".join(p.message.content for p in o.chat(model="small", messages=question, think=False, stream=True,
                                                                         options={"num_predict": 12, "temperature": 0})) ==
      o.chat(model="small", messages=question, think=False, options={"num_predict": 12, "temperature": 0}).message.content)
check("ollama: generate", lambda: o.generate(model="small", prompt="Hello", think=False, options={"num_predict": 4}).response is not None)
check("ollama: format", lambda: Person.model_validate_json(o.chat(model="small", messages=question, think=False, format=Person.model_json_schema(),
                                                                  options={"num_predict": 120}).message.content))
check("ollama: tools", lambda: o.chat(model="small", messages=question, think=False, tools=tools, options={"num_predict": 120}).done)
check("ollama: embed", lambda: len(o.embed(model="small", input=["a", "b"]).embeddings) == 2)
check("ollama: list", lambda: [m.model for m in o.list().models] == ["small"])

# ---- litellm
try:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    lite = dict(model="openai/small", api_base=url + "/v1", api_key="secret", messages=question, max_tokens=24, temperature=0)
    check("litellm: chat", lambda: litellm.completion(**lite).choices[0].message.content)
    check("litellm: stream", lambda: "".join(p.choices[0].delta.content or "" for p in litellm.completion(**lite, stream=True)))
    check("litellm: tools", lambda: litellm.completion(**{**lite, "max_tokens": 300}, tools=tools, tool_choice="required").choices[0].message.tool_calls)
except ImportError:
    print("litellm is not installed: left out")

# ---- langchain
try:
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chain = ChatOpenAI(model="small", base_url=url + "/v1", api_key="secret", max_tokens=300, temperature=0, extra_body=off)
    check("langchain: invoke", lambda: chain.invoke("Hello").content)
    check("langchain: stream", lambda: "".join(str(p.content) for p in chain.stream("Hello")))
    check("langchain: structured output", lambda: isinstance(chain.with_structured_output(Person, method="json_schema").invoke("A person"), Person))
    check("langchain: tools", lambda: chain.bind_tools(tools, tool_choice="required").invoke("Weather in Paris?").tool_calls)
    check("langchain: embeddings", lambda: len(OpenAIEmbeddings(model="small", base_url=url + "/v1", api_key="secret",
                                                                check_embedding_ctx_length=False).embed_documents(["a", "b"])) == 2)
except ImportError:
    print("langchain-openai is not installed: left out")

server.terminate()
rest = server.stderr.read()
check("the server ends", lambda: server.wait(30) == 0 or print(rest))
os.unlink(template.name)
print(f"{passed} passed, {len(failed)} failed")
sys.exit(bool(failed))
