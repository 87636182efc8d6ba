/** Which requests are forwarded, and to which server. */
export interface Options {
  /** The functions to forward; requests to others are refused. */
  names: ReadonlySet<string>;
  /** URL of Pagewarden, such as https://pagewarden.example.org; may have a path. */
  upstream: string | undefined;
  /** Timeout until the response of Pagewarden begins. */
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

// Every origin is allowed: requests are authenticated by a token in a header,
// never by a cookie, which a browser would add by itself.
const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "*",
};

/** Return a handler that forwards requests and streams bodies in both directions. */
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
    const headers = forwardedHeaders(request.headers, url, info);
    return forward(request, target, headers, options.seconds);
  };
}

function parse(upstream: string | undefined): URL | undefined {
  const url = URL.parse(upstream ?? "");
  // Credentials in the URL would appear in messages.
  if (url === null || url.username || url.password) return undefined;
  return /^https?:$/.test(url.protocol) ? url : undefined;
}

/** Return the path of a known function; Supabase's runtime removes /functions/v1. */
function findPath(url: URL, names: ReadonlySet<string>): string | undefined {
  const path = url.pathname.startsWith(`${PREFIX}/`)
    ? url.pathname
    : PREFIX + url.pathname;
  const name = path.split("/", 4)[3];
  // URL has resolved ".." and %2e%2e. After an encoded slash there could be
  // another ".." for servers that decode it.
  if (!names.has(name) || /%2f|%5c/i.test(path)) return undefined;
  return path;
}

function forwardedHeaders(
  original: Headers,
  url: URL,
  info: Deno.ServeHandlerInfo,
): Headers {
  const headers = endToEnd(original);
  const client = "hostname" in info.remoteAddr ? info.remoteAddr.hostname : "";
  const caller = {
    "x-forwarded-for": client,
    "x-forwarded-host": url.host,
    "x-forwarded-proto": url.protocol.slice(0, -1),
  };
  // Headers of Supabase's gateway take precedence: the runtime sees inner names.
  for (const [name, value] of Object.entries(caller)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  // fetch would decompress the response, which wastes limited CPU time.
  headers.set("accept-encoding", "identity");
  headers.delete("expect");
  headers.delete("host");
  return headers;
}

/** Remove the headers that apply to one connection only. */
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
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, 1000 * seconds);
  request.signal.addEventListener("abort", abort);
  try {
    const response = await fetch(target, {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: controller.signal,
    });
    return clientResponse(response);
  } catch (error) {
    if (controller.signal.aborted) return timedOut();
    logError(error);
    return unreachable();
  } finally {
    // From here on a client that disconnects cancels the body, and with it the fetch.
    request.signal.removeEventListener("abort", abort);
    clearTimeout(timer);
  }
}

/** Log the cause without the URL, whose query may contain secrets. */
function logError(error: unknown): void {
  const cause = error instanceof Error ? error.cause ?? error : error;
  console.error(String(cause).replace(/https?:\/\/[^\s)]+/g, "Pagewarden"));
}

function clientResponse(response: Response): Response {
  const headers = endToEnd(response.headers);
  for (const [name, value] of Object.entries(CORS_HEADERS)) {
    if (!headers.has(name)) headers.set(name, value);
  }
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}

function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" &&
    request.headers.has("access-control-request-method");
}

function preflight(request: Request): Response {
  const requested = request.headers.get("access-control-request-headers");
  return new Response(null, {
    status: 204,
    headers: {
      ...CORS_HEADERS,
      "access-control-allow-methods": "DELETE, GET, HEAD, PATCH, POST, PUT",
      "access-control-allow-headers": requested ?? "",
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
    message: "the URL of Pagewarden is not configured",
    hint: "set the secret PAGEWARDEN_URL of this project to its https:// URL",
  });
}

function unreachable(): Response {
  return refuse(502, {
    error: "PAGEWARDEN_AWAY",
    message: "Pagewarden cannot be reached; try again",
    hint: "check PAGEWARDEN_URL and the logs of this function",
  });
}

function timedOut(): Response {
  return refuse(504, {
    error: "PAGEWARDEN_SLOW",
    message: "Pagewarden did not respond in time; try again",
  });
}

interface Refusal {
  error: string;
  message: string;
  hint?: string;
}

function refuse(status: number, refusal: Refusal): Response {
  const headers = new Headers(CORS_HEADERS);
  if (status > 500) headers.set("retry-after", RETRY_AFTER_SECONDS);
  return Response.json(refusal, { status, headers });
}
