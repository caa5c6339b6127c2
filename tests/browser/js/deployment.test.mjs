// Where the page connects to, and what it begins with.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { askDeployment, firstModel, gatewayUrls } from "../../../gateway/web/talk/deployment.js";

const realFetch = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = realFetch;
});

test("the page's own address comes first, and none comes twice", () => {
  const urls = gatewayUrls(["ws://127.0.0.1:8099", "ws://127.0.0.1:8100/v1/realtime"], "http://127.0.0.1:8099/");
  assert.deepEqual(urls, [
    "ws://127.0.0.1:8099/v1/realtime?duplex=1&autostart=0",
    "ws://127.0.0.1:8100/v1/realtime?duplex=1&autostart=0",
  ]);
});

test("a page that came over TLS connects over TLS", () => {
  assert.deepEqual(gatewayUrls([], "https://voice.example/"), ["wss://voice.example/v1/realtime?duplex=1&autostart=0"]);
});

test("the service's own model is the first choice where it runs", () => {
  assert.equal(firstModel({ models: ["a", "b"], defaultModel: "b" }), "b");
  assert.equal(firstModel({ models: ["a"], defaultModel: "b" }), "a");
  assert.equal(firstModel({ models: [], defaultModel: "b" }), "");
});

test("a service that does not answer has no models", async () => {
  globalThis.fetch = () => Promise.reject(new Error("refused"));
  assert.deepEqual(await askDeployment(), { models: [], gateways: [], defaultModel: "" });
});

test("what the service says is taken as it is", async () => {
  const answers = { "/v1/models": { data: [{ id: "a" }] }, "/web/config.json": { gateways: ["ws://g"], default_model: "a" } };
  globalThis.fetch = async (path) => ({ ok: true, json: async () => answers[path] });
  assert.deepEqual(await askDeployment(), { models: ["a"], gateways: ["ws://g"], defaultModel: "a" });
});
