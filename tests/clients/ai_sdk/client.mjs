// Usage: node client.mjs BASE_URL CODE whole|stream|named chat|messages|responses
// One agent loop with one tool. Prints one JSON object: what the client saw.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, code, mode, api] = process.argv.slice(2);
globalThis.AI_SDK_LOG_WARNINGS = false; // standard output is the answer
const apiKey = "unused";
const model = {
  chat: () => createOpenAICompatible({ name: "local", apiKey, baseURL, includeUsage: true }).chatModel("fake-model"),
  messages: () => createAnthropic({ apiKey, baseURL })("fake-model"),
  responses: () => createOpenAI({ apiKey, baseURL }).responses("fake-model"),
}[api]();
const calls = [];
const lookup_code = tool({
  description: "Look up the code of a city.",
  inputSchema: z.object({ city: z.string(), days: z.number().int() }),
  execute: async (input) => {
    calls.push(input);
    return `code ${code} for day ${input.days}`;
  },
});
const request = {
  model,
  system: "You are helpful.",
  prompt: "Call the tool lookup_code and then tell me exactly the code that it returned.",
  tools: { lookup_code },
  stopWhen: stepCountIs(4),
  maxRetries: 0,
};

async function whole() {
  const result = await generateText(request);
  return { text: result.text, usage: result.totalUsage, steps: result.steps };
}

async function stream() {
  const errors = [];
  const result = streamText({ ...request, onError: ({ error }) => errors.push(String(error)) });
  const parts = {};
  let input = "";
  for await (const part of result.fullStream) {
    parts[part.type] = (parts[part.type] ?? 0) + 1;
    if (part.type === "tool-input-delta") input += part.delta;
  }
  return { text: await result.text, usage: await result.totalUsage, steps: await result.steps, parts, input, errors };
}

async function named() {
  const result = await generateText({
    ...request,
    stopWhen: stepCountIs(1),
    toolChoice: { type: "tool", toolName: "lookup_code" },
  });
  return { text: result.text, usage: result.totalUsage, steps: result.steps };
}

const { steps, ...seen } = await { whole, stream, named }[mode]();
const said = steps.map((step) => ({
  text: step.text,
  finish: step.finishReason,
  calls: step.toolCalls.map((call) => [call.toolName, call.input, call.invalid ?? false]),
  results: step.toolResults.map((result) => result.output),
}));
console.log(JSON.stringify({ ...seen, calls, steps: said }));
