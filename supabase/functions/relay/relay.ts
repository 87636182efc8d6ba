/** Where requests go, and which. */
export interface Options {
  /** Functions that are forwarded; there are no others. */
  names: ReadonlySet<string>;
  /** Where Pagewarden is: https://pagewarden.example.org, or a folder of it. */
  upstream: string | undefined;
  /** How long Pagewarden may take until its answer begins. */
  seconds: number;
}

const PREFIX = "/functions/v1";
const RETRY_AFTER_SECONDS = "5";

const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

// Any site may ask: what opens something is a token in a header, which a page
// must have, and never a cookie, which a browser would add by itself.
const OPEN = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "*",
};

/** Make a handler that forwards requests, and streams bodies both ways. */
export function relay(options: Options): Deno.ServeHandler {
  const upstream = parse(options.upstream);
  return (request, info) => {
    const url = new URL(request.url);
    const path = findPath(url, options.names);
    if (path === undefined) return notFound();
    if (isPreflight(request)) return preflight(request);
    if (upstream === undefined) return notConfigured();
    const target = new URL(upstream);
    target.pathname = upstream.pathname.replace(/\/+$/, "") + path;
    target.search = url.search;
    const headers = forwarded(request.headers, url, info);
    return forward(request, target, headers, options.seconds);
  };
}

function parse(upstream: string | undefined): URL | undefined {
  const url = URL.parse(upstream ?? "");
  // A name and password in it would show up in messages.
  if (url === null || url.username || url.password) return undefined;
  return /^https?:$/.test(url.protocol) ? url : undefined;
}

/** Supabase's runtime shows /name/… for what was called as /functions/v1/name/… */
function findPath(url: URL, names: ReadonlySet<string>): string | undefined {
  const path = url.pathname.startsWith(`${PREFIX}/`)
    ? url.pathname
    : PREFIX + url.pathname;
  const name = path.split("/", 4)[3];
  // URL has resolved "..", also if it was written as %2e%2e. Whoever decodes an
  // encoded stroke could find another one behind it.
  if (!names.has(name) || /%2f|%5c/i.test(path)) return undefined;
  return path;
}

function forwarded(
  given: Headers,
  url: URL,
  info: Deno.ServeHandlerInfo,
): Headers {
  const headers = endToEnd(given);
  const client = "hostname" in info.remoteAddr ? info.remoteAddr.hostname : "";
  const caller = {
    "x-forwarded-for": client,
    "x-forwarded-host": url.host,
    "x-forwarded-proto": url.protocol.slice(0, -1),
  };
  // Supabase's gateway has said it already, and its runtime knows no better.
  for (const [name, value] of Object.entries(caller)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  // fetch would unpack what comes packed: time of the processor for nothing.
  headers.set("accept-encoding", "identity");
  headers.delete("expect");
  headers.delete("host");
  return headers;
}

/** What is meant for more than the next connection. */
function endToEnd(headers: Headers): Headers {
  const named = headers.get("connection")?.toLowerCase().split(",") ?? [];
  const dropped = new Set([...HOP_BY_HOP, ...named.map((name) => name.trim())]);
  return new Headers([...headers].filter(([name]) => !dropped.has(name)));
}

async function forward(
  request: Request,
  target: URL,
  headers: Headers,
  seconds: number,
): Promise<Response> {
  const giveUp = new AbortController();
  const leave = () => giveUp.abort();
  const timer = setTimeout(leave, 1000 * seconds);
  request.signal.addEventListener("abort", leave);
  try {
    const answer = await fetch(target, {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: giveUp.signal,
    });
    return answered(answer);
  } catch (error) {
    if (giveUp.signal.aborted) return tooSlow();
    logError(error);
    return away();
  } finally {
    // From here on whoever leaves ends the body, and with it what we fetch.
    request.signal.removeEventListener("abort", leave);
    clearTimeout(timer);
  }
}

/** Write down why, without the address: its query may have secrets. */
function logError(error: unknown): void {
  const cause = error instanceof Error ? error.cause ?? error : error;
  console.error(String(cause).replace(/https?:\/\/[^\s)]+/g, "Pagewarden"));
}

function answered(answer: Response): Response {
  const headers = endToEnd(answer.headers);
  for (const [name, value] of Object.entries(OPEN)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  const { status, statusText } = answer;
  return new Response(answer.body, { status, statusText, headers });
}

function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" &&
    request.headers.has("access-control-request-method");
}

function preflight(request: Request): Response {
  const wanted = request.headers.get("access-control-request-headers");
  return new Response(null, {
    status: 204,
    headers: {
      ...OPEN,
      "access-control-allow-methods": "DELETE, GET, HEAD, PATCH, POST, PUT",
      "access-control-allow-headers": wanted ?? "",
      "access-control-max-age": "86400",
    },
  });
}

function notFound(): Response {
  return refuse(404, {
    error: "NOT_FOUND",
    message: "there is no such function",
  });
}

function notConfigured(): Response {
  return refuse(503, {
    error: "NOT_CONFIGURED",
    message: "the relay does not know where Pagewarden is",
    hint: "set the secret PAGEWARDEN_URL of this project to its https:// URL",
  });
}

function away(): Response {
  return refuse(502, {
    error: "PAGEWARDEN_AWAY",
    message: "Pagewarden cannot be reached; try again",
    hint: "see the logs of this function, and whether PAGEWARDEN_URL is right",
  });
}

function tooSlow(): Response {
  return refuse(504, {
    error: "PAGEWARDEN_SLOW",
    message: "Pagewarden took too long to answer; try again",
  });
}

interface Refusal {
  error: string;
  message: string;
  hint?: string;
}

function refuse(status: number, refusal: Refusal): Response {
  const headers = new Headers(OPEN);
  if (status > 500) headers.set("retry-after", RETRY_AFTER_SECONDS);
  return Response.json(refusal, { status, headers });
}
