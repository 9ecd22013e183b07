// Usage: node sdks.mjs BASE_URL CODE messages-whole|messages-stream|messages-runner|responses-whole|responses-stream|responses-parse
// The vendors' own SDKs, one conversation with one tool. Prints one JSON object: what the client saw.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";

const [baseURL, code, mode] = process.argv.slice(2);
const calls = [];
const question = "Call the tool lookup_code and then tell me exactly the code that it returned.";
const description = "Look up the code of a city.";
const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};
const run = (input) => {
  calls.push(input);
  return `code ${code} for day ${input.days}`;
};

async function messages(asked) {
  const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: "unused", maxRetries: 0 });
  const request = { model: "fake-model", max_tokens: 500, system: "You are helpful." };
  const history = [{ role: "user", content: question }];
  if (asked === "runner") {
    const tool = betaTool({ name: "lookup_code", description, inputSchema: schema, run });
    const runner = client.beta.messages.toolRunner({ ...request, messages: history, tools: [tool] });
    const seen = [];
    for await (const answer of runner) seen.push(answer);
    return { ends: seen.map((answer) => answer.stop_reason), text: seen.at(-1).content.at(-1).text };
  }
  const tools = [{ name: "lookup_code", description, input_schema: schema }];
  const ends = [];
  for (;;) {
    const turn = { ...request, messages: history, tools };
    const answer = asked === "whole" ? await client.messages.create(turn) : await client.messages.stream(turn).finalMessage();
    ends.push(answer.stop_reason);
    if (answer.stop_reason !== "tool_use") return { ends, text: answer.content.at(-1).text, usage: answer.usage };
    const call = answer.content.find((block) => block.type === "tool_use");
    const result = { type: "tool_result", tool_use_id: call.id, content: run(call.input) };
    history.push({ role: "assistant", content: answer.content }, { role: "user", content: [result] });
  }
}

async function responses(asked) {
  const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
  const request = { model: "fake-model", instructions: "You are helpful." };
  const tools = [{ type: "function", name: "lookup_code", description, parameters: schema, strict: asked === "parse" }];
  const input = [{ role: "user", content: question }];
  const ends = [];
  for (;;) {
    const turn = { ...request, input, tools };
    const answer = {
      whole: () => client.responses.create(turn),
      stream: () => client.responses.stream(turn).finalResponse(),
      parse: () => client.responses.parse(turn),
    }[asked];
    const response = await answer();
    const call = response.output.find((item) => item.type === "function_call");
    ends.push(call ? "tool_use" : response.status);
    if (!call) return { ends, text: response.output_text, usage: response.usage };
    const { parsed_arguments, ...sent } = call;
    const result = { type: "function_call_output", call_id: call.call_id, output: run(JSON.parse(call.arguments)) };
    input.push(...response.output.map((item) => (item === call ? sent : item)), result);
  }
}

const [api, asked] = mode.split("-");
console.log(JSON.stringify({ ...(await { messages, responses }[api](asked)), calls }));
