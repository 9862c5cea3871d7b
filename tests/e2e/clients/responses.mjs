// OpenAI's package for JavaScript on the Responses route. Arguments: the folder of the packages, the server's URL.
// Output: one JSON object, what each call gave.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const { OpenAI } = require("openai");

const { responses } = new OpenAI({ baseURL: process.argv[3] + "/v1", apiKey: "mine", maxRetries: 0 });
const told = {};

async function collected(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const whole = await responses.create({ model: "ann", input: "hello whole" });
told.whole = [whole.output_text, whole.usage.total_tokens];

const chained = responses.stream({ model: "ann", input: "hello stream", previous_response_id: whole.id });
const deltas = (await collected(chained)).filter((event) => event.type === "response.output_text.delta");
told.streamed = [deltas.map((event) => event.delta).join(""), (await chained.finalResponse()).output_text];

told.late = (await responses.stream({ model: "ann", input: "js-late" }).finalResponse()).output_text;

const thought = await responses.stream({ model: "eve", input: "js-thinks" }).finalResponse();
told.thoughts = [thought.output[0].summary[0].text, thought.output_text];

const tide = { type: "function", name: "tide", strict: false, parameters: { type: "object", properties: {} } };
const called = await responses.stream({ model: "ann", input: "js-calls", tools: [tide] }).finalResponse();
told.call = [called.output[0].content[0].text, called.output[1].name, JSON.parse(called.output[1].arguments)];

told.retrieved = (await responses.retrieve(whole.id)).output_text;
told.items = (await collected(responses.inputItems.list(whole.id))).map((item) => item.content[0].text);
told.counted = (await responses.inputTokens.count({ model: "ann", input: "Hello world" })).input_tokens;

await responses.delete(whole.id);
told.deleted = await responses.retrieve(whole.id).catch((error) => [error.constructor.name, error.status]);
const odd = { model: "ann", input: "x", background: true };
told.refused = await responses.create(odd).catch((error) => [error.constructor.name, error.param, error.code]);

let last;
for await (const event of await responses.create({ model: "ann", input: "js-stops", stream: true })) {
  if (event.type === "response.created") told.cancelled = (await responses.cancel(event.response.id)).status;
  last = event;
}
told.stopped = [last.type, last.response.status];

const failed = (await collected(await responses.create({ model: "ann", input: "js-dies", stream: true }))).at(-1);
told.failed = [failed.type, failed.response.error.code];

console.log(JSON.stringify(told));
