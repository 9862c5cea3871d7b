// What the packages of Anthropic and OpenAI for JavaScript see: one JSON object on stdout.
// Arguments: the folder whose `node_modules` has the packages, the address of the server.
import { createRequire } from "node:module";

const [folder, url] = process.argv.slice(2);
const require = createRequire(`${folder}/x.js`);
const { default: Anthropic, APIError, BadRequestError } = require("@anthropic-ai/sdk");
const { default: OpenAI } = require("openai");

const client = new Anthropic({ baseURL: url, apiKey: "none" });
const tools = [{ name: "tide", input_schema: { type: "object", properties: { about: { type: "string" } } } }];
const asked = (content, more = {}) => ({ model: "ann", max_tokens: 64, messages: [{ role: "user", content }], ...more });
const failure = async (promise) => {
  try {
    await promise;
    return null;
  } catch (error) {
    return { status: error.status ?? null, api: error instanceof APIError, bad: error instanceof BadRequestError, says: error.message };
  }
};

const seen = {};
seen.models = (await client.models.list()).data.map((model) => model.id);
seen.counted = (await client.messages.countTokens({ model: "ann", messages: [{ role: "user", content: "Hello world" }] })).input_tokens;

const whole = await client.messages.create(asked("js tide whole", { tools }));
seen.whole = { content: whole.content, stop: whole.stop_reason, input: whole.usage.input_tokens };

const stream = client.messages.stream(asked("js tide streamed", { tools }));
let text = "";
stream.on("text", (piece) => (text += piece));
const streamed = await stream.finalMessage();
seen.streamed = { text, content: streamed.content, stop: streamed.stop_reason };

let slow = "";
for await (const event of await client.messages.create(asked("js slow", { stream: true }))) {
  if (event.type === "content_block_delta") slow += event.delta.text;
}
seen.slow = slow;

seen.wrong = await failure(client.messages.create({ model: "ann", max_tokens: 5, messages: [{ content: "x" }] }));
seen.refused = await failure(client.messages.create(asked("js refused")));
seen.dies = await failure(client.messages.stream(asked("js dies")).finalMessage());

const left = client.messages.stream(asked("js left"));
await new Promise((done) => left.once("text", done));
left.abort();
seen.left = (await failure(left.done())) !== null;

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
seen.vectors = (await openai.embeddings.create({ model: "any", input: ["a", "bcd"] })).data.map((entry) => [...entry.embedding]);

console.log(JSON.stringify(seen));
