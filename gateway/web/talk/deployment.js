// What the service says of itself: its models, its other gateways, and which model is meant when none is named.

const PATIENCE_MS = 5_000;

// The answer's JSON; `null` when there is none to have.
async function read(path) {
  try {
    const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

// `{models, gateways, defaultModel}`; without an answer there are no models.
export async function askDeployment() {
  const [config, listed] = await Promise.all([read("/web/config.json"), read("/v1/models")]);
  return {
    models: (listed?.data ?? []).map((each) => each.id),
    gateways: config?.gateways ?? [],
    defaultModel: config?.default_model ?? "",
  };
}

// The addresses to connect to: the page's own first, then the others, each once. `base` is the page's address.
export function gatewayUrls(gateways, base) {
  const own = new URL("/v1/realtime", base);
  const urls = [own, ...gateways.map((address) => new URL("/v1/realtime", address))].map((url) => {
    const scheme = { "http:": "ws:", "https:": "wss:" }[url.protocol] ?? url.protocol;
    return `${scheme}//${url.host}${url.pathname}?duplex=1&autostart=0`;
  });
  return [...new Set(urls)];
}

// The model to begin with: the service's own choice if it runs, else the first that does.
export function firstModel({ models, defaultModel }) {
  return models.includes(defaultModel) ? defaultModel : (models[0] ?? "");
}
