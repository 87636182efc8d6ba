// Supabase Lite in its embedded form: an independent PostgREST in front of a Postgres.
// Reads its configuration from the first argument, prints its port when it listens, and ends
// when its standard input does, so that it never outlives the tests.
// Where Lite 0.10 answers otherwise than PostgREST is documented to, it is set right here.

import { serve } from "@hono/node-server";
import { App } from "@supabase/lite";
import { createPostgresConnection } from "@supabase/lite/postgres";

const { url, jwtSecret, publishableKey, secretKey } = JSON.parse(process.argv[2]);

// PostgREST answers with what to_json() makes of a value, Lite with Postgres' own text.
const isoTime = (text) => text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
// Lite encodes a JSON argument itself, before its driver does so once more.
const json = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const connection = createPostgresConnection({
  url,
  postgresOptions: {
    // It finds tables in information_schema, which shows a role only what it has rights to.
    connection: { role: "service_role" },
    onnotice: () => {},
    types: {
      json: { to: 114, from: [114], serialize: json, parse: JSON.parse },
      jsonb: { to: 3802, from: [3802], serialize: json, parse: JSON.parse },
      numeric: { to: 1700, from: [1700], serialize: String, parse: Number },
      timestamp: { to: 1114, from: [1114], serialize: String, parse: isoTime },
      timestamptz: { to: 1184, from: [1184], serialize: String, parse: isoTime },
    },
  },
});

// Otherwise the first request grants everybody everything, because there are tables with RLS.
connection.rlsState = "active";

// PostgREST forwards every SQLSTATE with its hint, Lite only some. Both let a function choose
// its answer by raising PGRST, so that is what the others become.
const forwarded = /^(42|PT|PGRST)/;
const statusOfClass = { "08": 503, 23: 409, 40: 500, 53: 503, 55: 500, 57: 500 };
const documented = (error) => {
  if (error.name !== "PostgresError" || forwarded.test(error.code)) return error;
  const { code, message, detail: details = null, hint = null } = error;
  const status = statusOfClass[code.slice(0, 2)] ?? 400;
  return Object.assign(new Error(JSON.stringify({ code, message, details, hint })), {
    code: "PGRST",
    detail: JSON.stringify({ status, headers: {} }),
  });
};
const withContext = connection.withContext.bind(connection);
connection.withContext = (...args) =>
  withContext(...args).catch((error) => Promise.reject(documented(error)));

const app = new App({
  connection,
  api: { enabled: true, schemas: ["public"] },
  auth: {
    enabled: false,
    jwt_secret: jwtSecret,
    publishable_key: publishableKey,
    secret_key: secretKey,
  },
  db: { migrations: { enabled: false } },
  storage: { enabled: false },
  studio: { enabled: false },
  options: {
    server: {
      middlewares: [
        // PostgREST trusts a valid token, Lite looks for its user, and fails without auth.
        (context, next) => {
          context.set("authService", { repo: { findUserById: () => true } });
          return next();
        },
      ],
    },
  },
});

serve({ fetch: (request) => app.fetch(request), hostname: "127.0.0.1", port: 0 }, ({ port }) =>
  console.log(port),
);
process.stdin.on("end", () => process.exit()).resume();
